"""Behind a caching nginx: what may be kept is kept, and nobody gets what is not theirs, or old.

Two tenants read through one cache, each with its own bucket and its own `Authorization`.
"""

import concurrent.futures
import os
import pathlib
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time
import unittest

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "support"))

from server import Server, eventually, missing

TEXT = {"Content-Type": "text/plain"}
JSON = {"Content-Type": "application/json"}
TENANTS = {"alice": "Bearer alice-token", "robert": "Basic cm9iZXJ0OnBhc3M="}
LONG_POLL_SECONDS = 2

if missing("nginx"):
    print("\n*** SKIPPED: nginx is not installed, no cache was checked ***\n", flush=True)


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Nginx:
    """A cache in front of `server`; asked as a server is."""

    def __init__(self, folder, server):
        self.port = free_port()
        values = {"FOLDER": folder, "PORT": self.port, "UPSTREAM": server.port}
        text = (HERE / "nginx.conf").read_text()
        config = pathlib.Path(folder, "nginx.conf")
        config.write_text(re.sub(r"@(\w+)@", lambda found: str(values[found[1]]), text))
        program = shutil.which("nginx", path=os.environ["PATH"] + ":/usr/sbin")
        self.process = subprocess.Popen([program, "-p", folder, "-c", str(config)])
        eventually("nginx listens", 20, self.listens)

    def listens(self):
        assert self.process.poll() is None, "nginx has ended"
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", self.port)) == 0

    def stop(self):
        self.process.terminate()
        self.process.wait(20)

    connect, ask = Server.connect, Server.ask


@unittest.skipIf(missing("nginx"), "nginx is not installed")
class Cached(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory(prefix="headwater-cache-")
        cls.addClassCleanup(cls.folder.cleanup)
        poll = ["--long-poll-timeout", f"{LONG_POLL_SECONDS}s", "--read-page-size", "64KiB"]
        cls.server = Server(f"{cls.folder.name}/data", "--log-level", "error", *poll)
        cls.addClassCleanup(cls.server.kill)
        nginx = pathlib.Path(cls.folder.name, "nginx")
        nginx.mkdir()
        cls.cache = Nginx(str(nginx), cls.server)
        cls.addClassCleanup(cls.cache.stop)
        for tenant in TENANTS:
            assert cls.server.ask("PUT", f"/{tenant}").status == 201

    #: Answers that came through the cache.
    asked = 0

    @classmethod
    def tearDownClass(cls):
        print(f"{Cached.asked} answers came through the cache")

    def get(self, path, headers=None, method="GET"):
        """Through the cache; also where the answer came from."""
        Cached.asked += 1
        answer = self.cache.ask(method, path, None, headers)
        return answer, answer["x-cache"]

    def make(self, path, body=b"", kind=TEXT):
        """A stream with content, made behind the back of the cache."""
        self.assertEqual(self.server.ask("PUT", path, body, kind).status, 201)

    def append(self, path, body, kind=TEXT):
        answer = self.server.ask("POST", path, body, kind)
        self.assertEqual(answer.status, 204)
        return answer["stream-next-offset"]

    # What is kept.

    def test_a_page_is_kept_and_is_the_same_page(self):
        self.make("/demo/kept", b"content")
        first, source = self.get("/demo/kept?offset=-1")
        self.assertEqual((first.status, first.body, source), (200, b"content", "MISS"))
        for _ in range(3):
            again, source = self.get("/demo/kept?offset=-1")
            self.assertEqual((again.status, again.body, source), (200, b"content", "HIT"))
            for header in ["etag", "stream-next-offset", "content-type", "stream-up-to-date"]:
                self.assertEqual(again[header], first[header], header)

    def test_a_tag_is_confirmed_from_the_cache(self):
        self.make("/demo/tagged", b"content")
        tag = self.get("/demo/tagged?offset=-1")[0]["etag"]
        for given in [tag, f"W/{tag}", f'"other", {tag}', "*"]:
            answer, source = self.get("/demo/tagged?offset=-1", {"If-None-Match": given})
            self.assertEqual((answer.status, answer.body, source), (304, b"", "HIT"), given)
            self.assertEqual(answer["etag"], tag)
        for given in ['"other"', tag.strip('"'), '"' + tag.strip('"')[:-1] + '"']:
            answer, _ = self.get("/demo/tagged?offset=-1", {"If-None-Match": given})
            self.assertEqual((answer.status, answer.body), (200, b"content"), given)

    def test_a_range_of_a_kept_page_is_that_range_or_the_page(self):
        self.make("/demo/ranged", b"0123456789")
        for kept in ["MISS", "HIT"]:
            for given, part in [("bytes=2-4", b"234"), ("bytes=-3", b"789"), ("bytes=0-0", b"0")]:
                answer, _ = self.get("/demo/ranged?offset=-1", {"Range": given})
                told = (answer.status, answer.body)
                self.assertIn(told, [(206, part), (200, b"0123456789")], (kept, given))

    def test_the_forms_of_a_JSON_page_are_kept_apart(self):
        self.make("/demo/forms", b'[1,{"a":2}]', JSON)
        forms = {
            "application/json": b'[1,{"a":2}]',
            "application/x-ndjson": b'1\n{"a":2}\n',
            "application/vnd.durable-stream-records+ndjson":
                b'{"record":0,"value":1}\n{"record":1,"value":{"a":2}}\n',
        }
        tags = set()
        for _ in range(3):
            for accept, body in forms.items():
                answer, _ = self.get("/demo/forms?offset=-1", {"Accept": accept})
                self.assertEqual((answer.status, answer.body), (200, body), accept)
                tags.add(answer["etag"])
        self.assertEqual(len(tags), len(forms))

    # What is not kept, since it is about a moment.

    def test_a_tail_is_never_old(self):
        self.make("/demo/tail", b"a")
        for number in range(10):
            head, source = self.get("/demo/tail", method="HEAD")
            tail = head["stream-next-offset"]
            self.assertEqual((int(tail), source), (number + 1, "MISS"))
            for query in ["now", tail, f"{int(tail) + 1_000}"]:
                answer, source = self.get(f"/demo/tail?offset={query}")
                self.assertEqual((answer.status, answer.body, source), (200, b"", "MISS"), query)
                self.assertEqual(answer["stream-up-to-date"], "true")
            self.append("/demo/tail", b"b")
            answer, source = self.get(f"/demo/tail?offset={tail}")
            self.assertEqual((answer.body, source), (b"b", "MISS"), "the tail was not kept")

    def test_a_reader_who_follows_the_offsets_gets_everything_once(self):
        """However old the pages are that it gets on its way."""
        self.make("/demo/follow")
        sent, readers = b"", [("", b"")] * 3
        for number in range(40):
            piece = f"<{number}>".encode() * 300
            sent += piece
            self.append("/demo/follow", piece)
            for no, (at, got) in enumerate(readers):
                if number % (no + 1):
                    continue
                while True:
                    answer, _ = self.get(f"/demo/follow?offset={at or -1}")
                    at, got = answer["stream-next-offset"], got + answer.body
                    if not answer.body:
                        break
                readers[no] = (at, got)
                self.assertEqual(got, sent)

    def test_neither_answers_to_writes_nor_refusals_are_kept(self):
        self.make("/demo/refused", b"content")
        for status, path in [
            (404, "/demo/none"), (404, "/none/x"), (404, "/nobody"),
            (400, "/demo/refused?offset=bad"),
            (400, "/demo/refused?live=bad"), (400, "/demo/refused?record=0"),
            (404, "/demo/none/snapshot"), (404, "/demo/none/bootstrap"), (404, "/demo/none/attrs"),
            (400, "/demo/streams?limit=0"), (404, "/-/none"),
        ]:
            for _ in range(2):
                answer, source = self.get(path)
                self.assertEqual((answer.status, source), (status, "MISS"), path)
        self.make("/demo/none", b"now it is")
        answer, _ = self.get("/demo/none")
        self.assertEqual(answer.body, b"now it is")

    def test_listings_buckets_and_attributes_are_never_kept(self):
        self.make("/demo/listed")
        paths = ["/demo", "/demo/streams", "/-/buckets", "/-/streams", "/demo/listed/attrs", "/",
                 "/-/healthz", "/-/readyz", "/-/version"]
        for path in paths:
            for _ in range(2):
                answer, source = self.get(path)
                self.assertEqual((answer.status, source), (200, "MISS"), path)
        self.server.ask("PUT", "/demo/listed/attrs", b'{"a":1}', JSON)
        self.assertEqual(self.get("/demo/listed/attrs")[0].body, b'{"a":1}')
        self.server.ask("DELETE", "/demo/listed")
        self.assertNotIn(b"listed", self.get("/demo/streams")[0].body)

    def test_snapshots_and_bootstraps_are_those_of_now(self):
        self.make("/demo/snap", b"ab")
        for number, at in enumerate([f"{0:020}", f"{2:020}"]):
            body = f"snapshot {number}".encode()
            answer = self.server.ask("PUT", f"/demo/snap/snapshot/{at}", body)
            self.assertEqual(answer.status, 204)
            for _ in range(2):
                redirect, source = self.get("/demo/snap/snapshot")
                self.assertEqual((redirect.status, source), (307, "MISS"))
                self.assertTrue(redirect["location"].endswith(at))
                snapshot, _ = self.get(f"/demo/snap/snapshot/{at}")
                self.assertEqual((snapshot.status, snapshot.body), (200, body))
                whole, source = self.get("/demo/snap/bootstrap")
                self.assertEqual((whole.status, source), (200, "MISS"))
                self.assertIn(body, whole.body)
        self.assertEqual(self.get(f"/demo/snap/snapshot/{0:020}")[0].status, 404)
        given = {"Range": "bytes=0-3", "If-Range": snapshot["etag"]}
        part, _ = self.get(f"/demo/snap/snapshot/{at}", given)
        self.assertIn((part.status, part.body), [(206, b"snap"), (200, body)])
        given = {"If-None-Match": snapshot["etag"]}
        # nginx asks without the tag where it might have kept the answer.
        self.assertIn(self.get(f"/demo/snap/snapshot/{at}", given)[0].status, (200, 304))
        direct = self.server.ask("GET", f"/demo/snap/snapshot/{at}", None, given)
        self.assertEqual(direct.status, 304)

    def test_a_closed_stream_says_so_behind_the_cache_when_its_last_page_is_new(self):
        self.make("/demo/closing", b"a")
        self.get("/demo/closing?offset=-1")
        self.server.ask("POST", "/demo/closing", None, {"Stream-Closed": "true"})
        head, _ = self.get("/demo/closing", method="HEAD")
        self.assertEqual(head["stream-closed"], "true")
        end, source = self.get(f"/demo/closing?offset={1:020}")
        self.assertEqual((end["stream-closed"], source), ("true", "MISS"))

    # Live reads.

    def test_readers_who_wait_together_are_answered_together_and_go_on(self):
        self.make("/demo/poll", b"a")
        at, cursor = f"{1:020}", None
        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            for number in range(3):
                query = f"/demo/poll?offset={at}&live=long-poll"
                query += f"&cursor={cursor}" if cursor else ""
                waiting = [pool.submit(self.get, query) for _ in range(8)]
                time.sleep(0.3)
                self.append("/demo/poll", f"{number}".encode())
                answers = [one.result()[0] for one in waiting]
                for answer in answers:
                    self.assertEqual((answer.status, answer.body), (200, f"{number}".encode()))
                    self.assertRegex(answer["stream-cursor"], r"^\d+$")
                at, cursor = answers[0]["stream-next-offset"], answers[0]["stream-cursor"]

    def test_a_poll_that_ends_empty_is_not_kept_and_its_cursor_moves_on(self):
        self.make("/demo/quiet", b"a")
        query, cursors = f"/demo/quiet?offset={1:020}&live=long-poll", []
        for _ in range(2):
            last = f"&cursor={cursors[-1]}" if cursors else ""
            answer, source = self.get(query + last)
            self.assertEqual((answer.status, source), (204, "MISS"))
            cursors.append(answer["stream-cursor"])
        self.assertLess(int(cursors[0]), int(cursors[1]))
        # The same question again, now that there is something.
        self.append("/demo/quiet", b"b")
        answer, _ = self.get(query)
        self.assertEqual((answer.status, answer.body), (200, b"b"))

    def test_events_are_never_kept(self):
        self.make("/demo/events", b"a")
        self.server.ask("POST", "/demo/events", None, {"Stream-Closed": "true"})
        bodies = set()
        for _ in range(2):
            answer, source = self.get("/demo/events?offset=-1&live=sse")
            self.assertEqual((answer.status, source), (200, "MISS"))
            bodies.add(answer.body)
        self.assertIn(b"data:a\n", bodies.pop())

    # Two tenants.

    def test_what_was_asked_for_with_credentials_is_served_to_nobody_else(self):
        """The cache keeps nothing of it, so that whoever checks credentials behind it is asked."""
        for tenant, credentials in TENANTS.items():
            own, with_credentials = f"/{tenant}/private", {"Authorization": credentials}
            self.make(own, f"of {tenant}".encode())
            self.make(f"{own}-json", b'["secret"]', JSON)
            at = f"{0:020}"
            self.server.ask("PUT", f"{own}/snapshot/{at}", f"snapshot of {tenant}".encode())
            paths = [
                own, f"{own}?offset=-1", f"{own}?offset={at}", f"/ds{own}", f"{own}-json",
                f"{own}?offset=-1&live=long-poll", f"{own}/snapshot/{at}", f"{own}/bootstrap",
                f"{own}/attrs", f"{own}/snapshot", f"/{tenant}/streams", f"/{tenant}",
                f"{own}-json?tail_records=1", f"{own}-json?record=0",
            ]
            for path in paths:
                answer, source = self.get(path, with_credentials)
                self.assertEqual(source, "MISS", path)
                self.assertIn(answer.status, (200, 307), path)
                self.assertNotIn("public", answer["cache-control"] or "", path)
                # Asked again by anybody, the server is asked again.
                for other in [with_credentials, {"Authorization": "Bearer somebody"}]:
                    _, source = self.get(path, other)
                    self.assertEqual(source, "MISS", path)

    def test_tenants_at_work_at_the_same_time_get_only_their_own(self):
        for tenant in TENANTS:
            for number in range(4):
                self.make(f"/{tenant}/s{number}", tenant.encode() * 10)
        wrong, lock = [], threading.Lock()

        def read(tenant):
            other = next(name for name in TENANTS if name != tenant).encode()
            headers = {"Authorization": TENANTS[tenant]}
            for number in range(60):
                for query in ["", "?offset=-1", "?offset=now", "?offset=-1&live=sse"]:
                    if "sse" in query:
                        continue
                    # One with credentials and one without, so that there is something to mix up.
                    for given in [headers, None]:
                        answer, _ = self.get(f"/{tenant}/s{number % 4}{query}", given)
                        if other in answer.body or answer.status != 200:
                            with lock:
                                wrong.append((tenant, query, answer.status))

        threads = [threading.Thread(target=read, args=(tenant,)) for tenant in TENANTS]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(wrong, [])

    def test_what_a_stream_of_the_same_name_held_has_another_tag(self):
        self.make("/demo/again", b"old")
        old, _ = self.get("/demo/again?offset=-1")
        self.server.ask("DELETE", "/demo/again")
        self.make("/demo/again", b"new")
        fresh = self.server.ask("GET", "/demo/again?offset=-1")
        self.assertNotEqual(fresh["etag"], old["etag"])
        tag = {"If-None-Match": old["etag"]}
        self.assertEqual(self.server.ask("GET", "/demo/again?offset=-1", None, tag).status, 200)
        # A cache may say "old" for as long as it was told to, and not longer than an hour.
        self.assertLessEqual(int(re.search(r"max-age=(\d+)", old["cache-control"])[1]), 3600)

    def test_a_poisoned_host_is_not_in_what_is_kept(self):
        self.make("/demo/host", b"content")
        given = {"Host": "127.0.0.1", "X-Forwarded-Host": "evil.example", "X-Host": "evil.example"}
        self.get("/demo/host?offset=-1", given)
        answer, _ = self.get("/demo/host?offset=-1", {"Host": "127.0.0.1"})
        self.assertEqual(answer.body, b"content")
        self.assertNotIn("evil", str(answer.headers))


if __name__ == "__main__":
    unittest.main()
