"""Text that reads like the framing of server-sent events arrives as text, whoever parses it.

`cases.json` says what is appended. Here `httpx-sse`, `eventsource-parser` and the official client
read what the binary sends; the server's own tests read the same cases with a third parser.
"""

import base64
import json
import pathlib
import re
import socket
import subprocess
import sys
import tempfile
import unittest

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "support"))

from httpx_sse._decoders import SSEDecoder, SSELineDecoder
from server import Server

CASES = json.loads((HERE / "cases.json").read_text())
CASES_MIN = 60


def append_bytes(append):
    """An append of the table: text, text many times, or bytes in hex."""
    if isinstance(append, str):
        return append.encode()
    if "hex" in append:
        return bytes.fromhex(append["hex"])
    return append["text"].encode() * append["times"]


def httpx_events(raw):
    """`[name, data, id]` of each event."""
    lines, decoder = SSELineDecoder(), SSEDecoder()
    text = raw.decode()
    found = [decoder.decode(line) for line in [*lines.decode(text), *lines.flush()]]
    return [[event.event, event.data, event.id or None] for event in found if event]


def arrays(text):
    """The texts of arrays that stand one behind the other."""
    found, decoder = [], json.JSONDecoder()
    while text := text.strip():
        _, end = decoder.raw_decode(text)
        found.append(text[:end])
        text = text[end:]
    return found


class Live:
    """An answer of events, as it comes over a socket."""

    def __init__(self, server, target):
        self.socket = socket.create_connection(("127.0.0.1", server.port), timeout=20)
        # HTTP/1.0: the body is what follows the head, without chunks.
        self.socket.sendall(f"GET {target} HTTP/1.0\r\nHost: test\r\n\r\n".encode())
        self.raw = b""
        while b"\r\n\r\n" not in self.raw:
            self.raw += self.take()
        self.head, _, self.raw = self.raw.partition(b"\r\n\r\n")
        assert self.head.split()[1] == b"200", self.head

    def take(self):
        piece = self.socket.recv(1 << 16)
        assert piece, "the answer has ended"
        return piece

    def until_offset(self, offset):
        """Reads on until the place is named by a real control event."""
        mark = re.compile(rb'\nevent: control\ndata:\{"streamNextOffset":"%s"' % offset.encode())
        while not mark.search(b"\n" + self.raw):
            self.raw += self.take()

    def rest(self):
        while piece := self.socket.recv(1 << 16):
            self.raw += piece
        self.socket.close()
        return self.raw


class Injection(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory(prefix="headwater-injection-")
        cls.addClassCleanup(cls.folder.cleanup)
        cls.server = Server(f"{cls.folder.name}/data")
        cls.addClassCleanup(cls.server.kill)

    def fill(self, path, case):
        """Appends with a live reader connected, and closes; the live answer, and each offset."""
        server = self.server
        kind = {"Content-Type": case["type"]}
        self.assertIn(server.ask("PUT", path, "", kind).status, (200, 201))
        live = Live(server, f"{path}?offset=-1&live=sse")
        offsets = ["0" * 20]
        live.until_offset(offsets[0])
        connection = server.connect()
        for append in case["appends"]:
            answer = server.ask("POST", path, append_bytes(append), kind, connection)
            self.assertEqual(answer.status, 204, (case["name"], answer.body))
            offsets.append(answer["stream-next-offset"])
        close = {"Stream-Closed": "true"}
        answer = server.ask("POST", path, None, close, connection)
        self.assertEqual(answer.status, 204)
        connection.close()
        return live.rest(), offsets

    def check(self, case, offsets, events):
        """Only data and control; every control is the server's; the data are what was appended."""
        data, closed, promised = [], 0, None
        for name, text, event_id in events:
            self.assertIn(name, ("data", "control"))
            # The id is the server's, too: where to read on behind the event.
            self.assertIn(event_id, offsets)
            if name == "data":
                data.append(text)
                promised = event_id
                continue
            control = json.loads(text)
            self.assertEqual(control["streamNextOffset"], event_id)
            self.assertIn(promised, (None, event_id), "data and control go together")
            promised = None
            # The text of an unfinished character is held back: a place between two appends may
            # come twice, and never one that is not theirs.
            self.assertIn(control["streamNextOffset"], offsets)
            closed += control.get("streamClosed", False)
        self.assertEqual(closed, 1, "the end is told once")
        self.assertEqual(json.loads(events[-1][1])["streamNextOffset"], offsets[-1])
        controls = sum(name == "control" for name, _, _ in events)
        # One behind each data event, one at the start, one at the close, and no other.
        self.assertLessEqual(controls, len(data) + 2)
        self.check_data(case, data)

    def check_data(self, case, data):
        sent = b"".join(append_bytes(append) for append in case["appends"])
        if case["type"] == "application/json":
            expected = []
            for append in case["appends"]:
                value = json.loads(append_bytes(append))
                expected += value if isinstance(value, list) else [value]
            self.assertEqual(sum((json.loads(text) for text in data), []), expected)
        elif case["type"].startswith("text/"):
            text = sent.decode(errors="replace").replace("\r\n", "\n").replace("\r", "\n")
            self.assertEqual("".join(data), text)
        else:
            self.assertEqual(b"".join(base64.b64decode(text) for text in data), sent)

    def test_no_text_forges_an_event_for_any_of_the_parsers(self):
        cases = CASES["cases"]
        self.assertGreaterEqual(len(cases), CASES_MIN)
        for number, case in enumerate(cases):
            kind = {"Content-Type": case["type"]}
            self.assertEqual(self.server.ask("PUT", f"/demo/case{number}", "", kind).status, 201)
        official = self.follow(f"http://127.0.0.1:{self.server.port}/demo/case", len(cases))
        raw, told = [], []
        for number, case in enumerate(cases):
            live, offsets = self.fill(f"/demo/case{number}", case)
            caught_up = Live(self.server, f"/demo/case{number}?offset=-1&live=sse").rest()
            raw += [live, caught_up]
            told += [(case, offsets), (case, offsets)]
        for (case, offsets), one, parsed in zip(told, raw, self.parse(raw)):
            with self.subTest(case=case["name"]):
                at_once, byte_by_byte = parsed
                self.check(case, offsets, httpx_events(one))
                self.check(case, offsets, at_once)
                self.assertEqual(at_once, byte_by_byte)
        followed = json.loads(official.communicate(timeout=60)[0])
        for (case, offsets), got in zip(told[::2], followed):
            with self.subTest(case=case["name"], parser="the official client"):
                self.check_official(case, offsets, got)

    def parse(self, answers):
        """What `eventsource-parser` says of each, twice."""
        wire = json.dumps([base64.b64encode(one).decode() for one in answers])
        command = ["node", str(HERE / "parse.mjs")]
        parsed = subprocess.run(command, input=wire, capture_output=True, text=True, timeout=60)
        self.assertEqual(parsed.returncode, 0, parsed.stderr)
        return json.loads(parsed.stdout)

    def follow(self, base, count):
        """The official client, once it follows all of the streams."""
        command = ["node", str(HERE / "follow.mjs"), base, str(count)]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        self.assertEqual(process.stdout.readline(), "ready\n")
        return process

    def check_official(self, case, offsets, official):
        self.assertTrue(official["closed"])
        self.assertEqual(official["offset"], offsets[-1])
        got = base64.b64decode(official["bytes"])
        if case["type"] == "application/octet-stream":
            self.check_data(case, [base64.b64encode(got).decode()])
        elif case["type"] == "application/json":
            self.check_data(case, arrays(got.decode()))
        else:
            self.check_data(case, [got.decode()])

    def test_names_and_cursors_that_read_like_events_do_not_come_back_as_such(self):
        server, case = self.server, {"type": "text/plain", "name": "echo", "appends": ["x"]}
        for name in CASES["names"]:
            with self.subTest(name=name):
                path = f"/demo/{name}"
                raw, offsets = self.fill(path, case)
                self.check(case, offsets, httpx_events(raw))
                for resource in ["", "/snapshot", "/bootstrap", "/snapshot/9", "?offset=bad"]:
                    answer = server.ask("GET", path + resource)
                    for header, value in answer.headers.items():
                        self.assertNotRegex(value, r"[\r\n]", header)
                        self.assertNotIn(header, ("event", "data", "id"))
        for cursor in CASES["cursors"]:
            with self.subTest(cursor=cursor):
                path = f"/demo/cursor{CASES['cursors'].index(cursor)}"
                raw, offsets = self.fill(path, case)
                live = Live(server, f"{path}?offset=-1&live=sse&cursor={cursor}").rest()
                self.check(case, offsets, httpx_events(live))
                open_path = f"{path}-open"
                self.assertEqual(server.ask("PUT", open_path, "x").status, 201)
                target = f"{open_path}?offset=-1&live=long-poll&cursor={cursor}"
                answer = server.ask("GET", target)
                self.assertEqual(answer.status, 200)
                self.assertRegex(answer["stream-cursor"], r"^\d{1,20}$")
                live = Live(server, f"{open_path}?offset=-1&live=sse&cursor={cursor}")
                live.until_offset(f"{1:020}")
                live.socket.close()
                control = json.loads(httpx_events(live.raw)[1][1])
                self.assertRegex(control["streamCursor"], r"^\d{1,20}$")


if __name__ == "__main__":
    unittest.main()
