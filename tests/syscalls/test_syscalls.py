"""What the shipped binary asks of the kernel, and what it does when the kernel says no.

Every test traces the binary from outside with strace, which also injects the failures.
"""

import pathlib
import shutil
import subprocess
import tempfile
import threading
import unittest

from served import BUCKET, Server, Strace

STREAM = f"/{BUCKET}/stream"
WRITERS = 6
SHORT_WRITES = pathlib.Path(__file__).with_name("short_writes.c")

if shutil.which("strace") is None:
    print("\n*** SKIPPED: strace is not installed, no system call was checked ***\n", flush=True)


class Traced(unittest.TestCase):
    """What the tests share."""

    def setUp(self):
        if shutil.which("strace") is None:
            self.skipTest("strace is not installed")

    def serve(self, *flags, preload=None):
        directory = tempfile.TemporaryDirectory(prefix="headwater-syscalls-")
        self.addCleanup(directory.cleanup)
        server = Server(f"{directory.name}/data", *flags, preload=preload)
        self.addCleanup(server.kill)
        self.assertEqual(server.ask("PUT", STREAM, "")[0], 201)
        return server

    def work(self, server, each, body=""):
        """Several writers at a time; the marks that were acknowledged, and all the others."""
        acked, others, ports, lock = [], [], {}, threading.Lock()

        def write(writer):
            connection = server.connect()
            for number in range(each):
                mark = f"<w{writer}n{number}>"
                answer = server.ask("POST", STREAM, mark + body, connection)
                with lock:
                    if connection.sock:
                        ports[mark] = connection.sock.getsockname()[1]
                    good = answer is not None and answer[0] == 204
                    (acked if good else others).append(mark)
                if answer is None:
                    break
            connection.close()

        threads = [threading.Thread(target=write, args=(writer,)) for writer in range(WRITERS)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return acked, others, ports

    def assert_kept(self, server, acked, others=()):
        status, text = server.ask("GET", STREAM + "?offset=-1")
        self.assertEqual(status, 200)
        text = text.decode()
        for mark in acked:
            self.assertEqual(text.count(mark), 1, f"{mark} was acknowledged")
        for mark in others:
            self.assertLessEqual(text.count(mark), 1, f"{mark} had no answer")
        self.assertEqual(server.ask("POST", STREAM, "and on")[0], 204)


class Order(Traced):
    """What is on disk before what is said."""

    def test_a_sync_that_covers_the_record_ends_before_its_answer_leaves(self):
        server = self.serve()
        trace = "trace=pwrite64,pwritev,fdatasync,write,writev,sendto,sendmsg,recvfrom,read"
        strace = Strace(server, "-yy", "-s", "100000", "-e", trace)
        acked, others, ports = self.work(server, each=30)
        seen = strace.stop()
        self.assertEqual(others, [])
        self.assertEqual(len(acked), 30 * WRITERS)
        shared = 0
        for mark in acked:
            record = next(c for c in seen if c.name.startswith("pwrite") and mark in c.text)
            self.assertGreater(record.result, 0)
            sync = next(
                c
                for c in seen
                if c.name == "fdatasync"
                and c.began > record.ended
                and c.descriptor() == record.descriptor()
            )
            self.assertEqual(sync.result, 0)
            here = f"->127.0.0.1:{ports[mark]}]"
            asked = next(
                c
                for c in seen
                if c.name in ("read", "recvfrom") and here in c.text and mark in c.text
            )
            answer = next(
                c
                for c in seen
                if c.name in ("write", "writev", "sendto", "sendmsg")
                and c.began > asked.ended
                and here in c.text
            )
            self.assertIn("HTTP/1.1 204", answer.text)
            self.assertLess(sync.ended, answer.began, f"{mark}: answered before the sync ended")
            shared += record.text.count("<w") > 1
        # One write for several appends is what makes the order worth a proof.
        self.assertGreater(shared, 0)


class Failures(Traced):
    """What a failing call of the kernel leads to."""

    def test_a_failed_sync_ends_the_process_and_acknowledges_nothing_that_it_covers(self):
        for when in (1, 2, 5, 20):
            with self.subTest(when=when):
                server = self.serve()
                before = [f"<before {when}>"]
                self.assertEqual(server.ask("POST", STREAM, before[0])[0], 204)
                inject = f"inject=fdatasync:error=EIO:when={when}"
                trace = ["-yy", "-s", "100000", "-e", "trace=fdatasync,pwrite64"]
                strace = Strace(server, *trace, "-e", inject)
                body = f"-{when}-"
                acked, others, _ = self.work(server, each=1000, body=body)
                self.assertEqual(server.exit_code(), 6)
                seen = strace.stop()
                failed = next(c for c in seen if c.name == "fdatasync" and c.result == -1)
                after = [c for c in seen if c.name == "fdatasync" and c.began > failed.began]
                self.assertEqual(after, [], "a failed sync is never tried again")
                synced = [c.began for c in seen if c.name == "fdatasync" and c.result == 0]
                last = max(synced, default=-1)
                for call in seen:
                    if call.name == "pwrite64" and last < call.began < failed.began:
                        for mark in acked:
                            self.assertNotIn(mark + body, call.text, "covered by the failed sync")
                server.restart()
                self.assert_kept(server, before)
                text = server.ask("GET", STREAM + "?offset=-1")[1].decode()
                for mark in acked:
                    self.assertEqual(text.count(mark + body), 1, f"{mark} was acknowledged")
                for mark in others:
                    self.assertLessEqual(text.count(mark + body), 1, f"{mark} had no answer")

    def test_a_log_write_that_finds_no_room_ends_the_process_since_its_room_was_reserved(self):
        server = self.serve()
        strace = Strace(server, "-e", "trace=pwrite64", "-e", "inject=pwrite64:error=ENOSPC:when=4")
        acked, others, _ = self.work(server, each=1000)
        self.assertEqual(server.exit_code(), 6)
        strace.stop()
        server.restart()
        self.assert_kept(server, acked, others)

    def test_without_room_for_log_files_appends_get_507_until_there_is_some(self):
        server = self.serve("--log-file-size", "64KiB")
        inject = "inject=fallocate:error=ENOSPC:when=1+"
        strace = Strace(server, "-e", "trace=fallocate", "-e", inject)
        connection, acked, refused = server.connect(), 0, None
        for number in range(200):
            status, _ = server.ask("POST", STREAM, f"<n{number}>" + "x" * 8000, connection)
            if status != 204:
                refused = status
                break
            acked += 1
        self.assertEqual(refused, 507)
        self.assertEqual(server.ask("HEAD", STREAM)[0], 200)
        text = server.ask("GET", STREAM + "?offset=-1")[1]
        self.assertEqual(text.count(b"<n"), acked, "what was refused is not there")
        connection.close()
        strace.stop()
        self.assertEqual(server.ask("POST", STREAM, "<n>")[0], 204, "writes resume by themselves")
        server.restart()
        text = server.ask("GET", STREAM + "?offset=-1")[1]
        self.assertEqual(text.count(b"<n"), acked + 1)

    def test_a_snapshot_that_finds_no_room_gets_507_and_the_server_goes_on(self):
        server = self.serve()
        strace = Strace(server, "-e", "trace=pwrite64", "-e", "inject=pwrite64:error=ENOSPC:when=1")
        path = STREAM + "/snapshot/00000000000000000000"
        self.assertEqual(server.ask("PUT", path, "y" * 100_000)[0], 507)
        strace.stop()
        self.assertEqual(server.ask("PUT", path, "y" * 100_000)[0], 204)
        self.assert_kept(server, [])

    def test_interrupted_calls_are_made_again(self):
        server = self.serve()
        inject = ["-e", "inject=pwrite64,fdatasync:error=EINTR:when=1+2"]
        strace = Strace(server, "-e", "trace=pwrite64,fdatasync", *inject)
        acked, others, _ = self.work(server, each=20)
        strace.stop()
        self.assertEqual(others, [])
        server.restart()
        self.assert_kept(server, acked)

    def test_slow_syncs_delay_answers_and_nothing_else(self):
        server = self.serve()
        delay = "inject=fdatasync:delay_exit=30000"
        strace = Strace(server, "-e", "trace=fdatasync", "-e", delay)
        acked, others, _ = self.work(server, each=5)
        self.assertEqual(server.ask("GET", "/-/healthz")[0], 200)
        strace.stop()
        self.assertEqual(others, [])
        server.restart()
        self.assert_kept(server, acked)


    @unittest.skipIf(shutil.which("cc") is None, "there is no C compiler")
    def test_short_writes_are_completed(self):
        # strace can refuse a write, but not shorten one; a library in between can.
        directory = tempfile.TemporaryDirectory(prefix="headwater-short-")
        self.addCleanup(directory.cleanup)
        library = f"{directory.name}/short_writes.so"
        subprocess.run(["cc", "-shared", "-fPIC", "-o", library, SHORT_WRITES, "-ldl"], check=True)
        server = self.serve("--log-file-size", "64KiB", preload=library)
        strace = Strace(server, "-e", "trace=pwrite64")
        acked, others, _ = self.work(server, each=20, body="z" * 300)
        seen = strace.stop()
        self.assertEqual(others, [])
        self.assertGreater(len(seen), 2 * len(acked) // WRITERS, "writes were cut")
        server.restart()
        self.assert_kept(server, acked)


if __name__ == "__main__":
    unittest.main()
