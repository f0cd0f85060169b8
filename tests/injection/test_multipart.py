"""A thousand random bootstrap answers, read by Python's `email`: every part byte for byte."""

import email
import email.message
import email.policy
import os
import pathlib
import random
import sys
import tempfile
import unittest

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "support"))

from server import Server

BODIES = int(os.environ.get("MULTIPART_BODIES", "1000"))
SEED = int(os.environ.get("MULTIPART_SEED", "1"))
TYPES = [
    "text/plain",
    "text/html; charset=utf-8",
    "application/octet-stream",
    "application/json",
    "multipart/mixed; boundary=inner",
    'text/plain; note="a; b\\"c"',
    "message/rfc822",
]
#: What a careless reader or writer would trip over.
PIECES = [
    b"\r\n", b"\n", b"\r", b"--", b"--\r\n", b"\r\n--", b"\r\n--inner\r\n", b"--inner--", b"\0",
    b"Content-Type: text/html\r\n\r\n", b"Content-Length: 3\r\n", b"\r\n\r\n", b"\xff\xfe", b" ",
    b"From x\r\n", b"=3D=\r\n", b".", b"\xe2\x80\xa8", b"boundary=", b"\r\n--\r\n--\r\n",
]
JSON = [b"1", b'"a\\r\\n--"', b'{"a":[1,\r\n2]}', b"[[]]", b'"\xe2\x80\xa8"', b"null", b"1.0"]


def body(random, last_boundary):
    """Up to a few hundred bytes of the above, of chance, and of a boundary that was seen."""
    pieces = [*PIECES, last_boundary, b"\r\n--" + last_boundary + b"--\r\n"]
    parts = [
        random.choice(pieces) if random.random() < 0.8 else random.randbytes(random.randrange(40))
        for _ in range(random.randrange(12))
    ]
    return b"".join(parts)


class Part(email.message.Message):
    """Only the answer itself is taken apart: what a part says of its own type stays its own."""

    is_whole = False

    def get_content_type(self):
        return super().get_content_type() if self.is_whole else "text/plain"

    def get_content_maintype(self):
        return super().get_content_maintype() if self.is_whole else "text"


def read(answer):
    """Type and bytes of each part, as `email` has them."""
    made = []

    def make(policy):
        made.append(Part(policy))
        made[-1].is_whole = len(made) == 1
        return made[-1]

    head = b"Content-Type: " + answer["content-type"].encode() + b"\r\n\r\n"
    policy = email.policy.HTTP.clone(message_factory=make)
    message = email.message_from_bytes(head + answer.body, policy=policy)
    assert not message.defects, message.defects
    assert not message.preamble and not message.epilogue
    return [
        (dict(part.raw_items())["Content-Type"], part.get_payload(decode=True))
        for part in message.get_payload()
    ]


class Multipart(unittest.TestCase):
    def test_every_part_is_what_was_stored(self):
        chance = random.Random(SEED)
        with tempfile.TemporaryDirectory(prefix="headwater-multipart-") as folder:
            server = Server(f"{folder}/data", "--log-level", "error")
            self.addCleanup(server.kill)
            connection, boundary = server.connect(), b"none yet"
            self.addCleanup(connection.close)
            parts = 0
            for number in range(BODIES):
                with self.subTest(number=number, seed=SEED):
                    boundary = self.round(server, connection, chance, number, boundary)
                    parts += self.parts
            print(f"{BODIES} bodies of {parts} parts, seed {SEED}")

    def round(self, server, connection, chance, number, boundary):
        ask = lambda *arguments: server.ask(*arguments, connection=connection)
        path, kind = f"/demo/m{number}", chance.choice(TYPES)
        headers = {"Content-Type": kind}
        self.assertEqual(ask("PUT", path, b"", headers).status, 201)
        is_json = kind == "application/json"
        messages = []
        for _ in range(chance.randrange(6)):
            message = chance.choice(JSON) if is_json else body(chance, boundary)
            if message:
                status = ask("POST", path, b"[" + message + b"]" if is_json else message, headers)
                self.assertEqual(status.status, 204, message)
                messages.append(message)
        snapshot_type, snapshot = "application/octet-stream", b""
        if chance.random() < 0.7:
            snapshot_type, snapshot = chance.choice(TYPES), body(chance, boundary)
            at = "0" * 20
            answer = ask("PUT", f"{path}/snapshot/{at}", snapshot, {"Content-Type": snapshot_type})
            self.assertEqual(answer.status, 204)
        answer = ask("GET", f"{path}/bootstrap", None, {})
        self.assertEqual(answer.status, 200)
        expected = [(snapshot_type, snapshot), *((kind, message) for message in messages)]
        found = read(answer)
        self.assertEqual(found, expected)
        self.parts = len(found)
        return answer["content-type"].partition("boundary=")[2].strip('"').encode()


if __name__ == "__main__":
    unittest.main()
