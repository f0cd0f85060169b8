"""A real small disk under the binary: full, out of inodes, read-only, without permission, gone.

Needs to mount a file system, which takes root; says so and skips where it may not.
"""

import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "support"))

from server import BINARY, Server, eventually

MIB = 1 << 20
DISK = 16 * MIB
FLAGS = ["--log-file-size", "1MiB", "--disk-reserve", "1MiB", "--log-level", "warn"]
PIECE = b"p" * 64_000
#: Space comes back in the background.
SOON_SECONDS = 30
NOBODY = 65534
AS_NOBODY = ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups"]


def may_mount():
    with tempfile.TemporaryDirectory() as folder:
        mounted = subprocess.run(
            ["mount", "-t", "tmpfs", "tmpfs", folder], stderr=subprocess.DEVNULL, check=False
        )
        if mounted.returncode == 0:
            subprocess.run(["umount", folder], check=True)
        return mounted.returncode == 0


CAN = shutil.which("mount") is not None and os.getuid() == 0 and may_mount()
if not CAN:
    print("\n*** SKIPPED: no disk can be mounted here (not root?) ***\n", flush=True)


@unittest.skipUnless(CAN, "no disk can be mounted here")
class Disk(unittest.TestCase):
    """What the tests share: a disk of 16 MiB, and a server on it."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="headwater-disk-")
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        self.disk = pathlib.Path(folder.name, "disk")
        self.disk.mkdir()
        self.servers = []
        self.addCleanup(self.clean)

    def clean(self):
        for server in self.servers:
            if server.is_running():
                server.kill()
        umount = ["umount", "--lazy", str(self.disk)]
        subprocess.run(umount, check=False, stderr=subprocess.DEVNULL)

    def mount(self, options=f"size={DISK}"):
        mount = ["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(self.disk)]
        subprocess.run(mount, check=True)

    def serve(self, *flags, **more):
        # The log of the server must find room when the disk has none.
        log = f"{self.folder}/server.log"
        server = Server(str(self.disk / "data"), *FLAGS, *flags, log=log, **more)
        self.servers.append(server)
        return server

    def refused(self, *flags, wrap=()):
        """The exit code and the words of a server that does not start."""
        command = [*wrap, BINARY, "serve", "--listen", "127.0.0.1:0", *FLAGS, *flags]
        kept = {k: v for k, v in os.environ.items() if not k.startswith("HEADWATER_")}
        ended = subprocess.run(
            [*command, "--data-dir", self.disk / "data"], capture_output=True, text=True, timeout=60, env=kept
        )
        return ended.returncode, ended.stdout + ended.stderr

    def create(self, server, *names):
        for name in names:
            self.assertEqual(server.ask("PUT", f"/demo/{name}", b"").status, 201)

    def fill(self, server, *names):
        """Appends to each in turn until there is no room; what each holds."""
        held, connection = dict.fromkeys(names, 0), server.connect()
        for number in range(4 * DISK // len(PIECE)):
            name = names[number % len(names)]
            answer = server.ask("POST", f"/demo/{name}", PIECE, connection=connection)
            if answer.status != 204:
                self.assertEqual(answer.status, 507, answer.body)
                self.assertIn(b"DISK_FULL", answer.body)
                connection.close()
                return held
            held[name] += len(PIECE)
        self.fail("the disk never filled")

    def assert_reads(self, server, held):
        for name, count in held.items():
            head = server.ask("HEAD", f"/demo/{name}")
            self.assertEqual((head.status, int(head["stream-next-offset"])), (200, count))
            got = b""
            while len(got) < count:
                got += server.ask("GET", f"/demo/{name}?offset={len(got)}").body
            self.assertEqual(got, PIECE * (count // len(PIECE)))
            tail = f"/demo/{name}?offset={max(0, count - len(PIECE))}"
            polled = server.ask("GET", f"{tail}&live=long-poll")
            self.assertEqual((polled.status, len(polled.body)), (200, min(count, len(PIECE))))

    def assert_write_comes(self, server, name):
        done = lambda: server.ask("POST", f"/demo/{name}", PIECE).status == 204
        eventually("writes resume by themselves", SOON_SECONDS, done)

    def take_all_room(self, leave=0):
        """Somebody else fills the disk."""
        hog = self.disk / "hog"
        with open(hog, "wb", buffering=0) as file:
            try:
                while True:
                    file.write(bytes(256 * 1024))
            except OSError:
                pass
            if leave:
                file.truncate(max(0, hog.stat().st_size - leave))
        return hog


class Full(Disk):
    def test_everything_but_new_data_goes_on_and_what_is_deleted_makes_room(self):
        self.mount()
        server = self.serve()
        self.create(server, "a", "b", "c")
        held = self.fill(server, "a", "b", "c")
        self.assert_reads(server, held)
        # Refused and not applied, however often; a little room may come back in the background.
        for _ in range(3):
            again = self.fill(server, "a")
            held["a"] += again["a"]
            self.assertEqual(server.ask("PUT", "/demo/new", PIECE * 20).status, 507)
            snapshot = f"/demo/b/snapshot/{held['b']:020}"
            self.assertEqual(server.ask("PUT", snapshot, bytes(4 * MIB)).status, 507)
        self.assert_reads(server, held)
        self.assertEqual(server.ask("GET", "/demo/new").status, 404)
        # Closing is no new data, and neither is deleting.
        self.assertEqual(server.ask("POST", "/demo/c", None, {"Stream-Closed": "true"}).status, 204)
        self.assertEqual(server.ask("DELETE", "/demo/a").status, 204)
        self.assertEqual(server.ask("DELETE", "/demo/c").status, 204)
        self.assert_write_comes(server, "b")
        held = {"b": held["b"] + len(PIECE)}
        self.assert_reads(server, held)
        server.restart()
        self.assert_reads(server, held)

    def test_retention_makes_room(self):
        self.mount()
        server = self.serve()
        self.create(server, "a")
        # A snapshot in good time: publishing one takes room.
        held, connection = 0, server.connect()
        for _ in range(4 * MIB // len(PIECE)):
            held += len(PIECE)
            self.assertEqual(server.ask("POST", "/demo/a", PIECE, None, connection).status, 204)
        connection.close()
        self.assertEqual(server.ask("PUT", f"/demo/a/snapshot/{held:020}", b"s").status, 204)
        self.fill(server, "a")
        answer = server.ask("PUT", f"/demo/a/retention/{held:020}", None)
        self.assertEqual(answer.status, 204, answer.body)
        self.assert_write_comes(server, "a")

    def test_room_that_somebody_else_took_and_gave_back(self):
        self.mount()
        server = self.serve()
        self.create(server, "a")
        self.assertEqual(server.ask("POST", "/demo/a", PIECE).status, 204)
        for _ in range(3):
            hog = self.take_all_room()
            held = self.fill_up(server)
            self.assert_reads(server, held)
            hog.unlink()
            self.assert_write_comes(server, "a")

    def fill_up(self, server):
        """Appends until refused, on a stream that holds some already."""
        self.fill(server, "a")
        return {"a": int(server.ask("HEAD", "/demo/a")["stream-next-offset"])}

    def test_a_start_on_a_full_disk_serves_what_is_there_and_writes_when_there_is_room(self):
        for clean in [True, False]:
            with self.subTest(clean=clean):
                self.mount()
                server = self.serve()
                self.create(server, "a", "b")
                held = self.fill(server, "a", "b")
                if clean:
                    self.assertEqual(server.stop(), 0)
                else:
                    server.kill()
                hog = self.take_all_room()
                server.start()
                self.assert_reads(server, held)
                self.assertEqual(server.ask("POST", "/demo/a", PIECE).status, 507)
                hog.unlink()
                self.assertEqual(server.ask("DELETE", "/demo/b").status, 204)
                self.assert_write_comes(server, "a")
                held = {"a": held["a"] + len(PIECE)}
                server.restart()
                self.assert_reads(server, held)
                server.kill()
                subprocess.run(["umount", "--lazy", str(self.disk)], check=True)

    def test_a_disk_that_is_full_at_the_very_first_start_is_refused_and_left_usable(self):
        self.mount()
        hog = self.take_all_room()
        code, said = self.refused()
        self.assertNotEqual(code, 0)
        self.assertNotIn("panicked", said)
        hog.unlink()
        server = self.serve()
        self.create(server, "a")


class Broken(Disk):
    def test_without_inodes_writes_are_refused_until_there_are_some(self):
        self.mount(f"size={4 * DISK},nr_inodes=64")
        server = self.serve()
        self.create(server, "a", "b")
        taken = []
        try:
            while True:
                taken.append(self.disk / f"file{len(taken)}")
                taken[-1].touch()
        except OSError:
            pass
        held = self.fill(server, "a", "b")
        self.assert_reads(server, held)
        snapshot = f"/demo/b/snapshot/{held['b']:020}"
        self.assertEqual(server.ask("PUT", snapshot, b"s").status, 507)
        for path in taken[:-1]:
            path.unlink()
        self.assert_write_comes(server, "a")
        self.assertEqual(server.ask("PUT", snapshot, b"s").status, 204)
        held["a"] += len(PIECE)
        server.restart()
        self.assert_reads(server, held)

    def test_a_disk_that_became_read_only_is_refused_at_the_start_and_left_alone(self):
        self.mount()
        server = self.serve()
        self.create(server, "a")
        self.assertEqual(server.ask("POST", "/demo/a", PIECE).status, 204)
        server.kill()
        remount = ["mount", "-o", "remount,ro", str(self.disk)]
        subprocess.run(remount, check=True)
        code, said = self.refused()
        self.assertNotEqual(code, 0)
        self.assertNotIn("panicked", said)
        self.assertRegex(said.lower(), "read-only")
        subprocess.run(["mount", "-o", "remount,rw", str(self.disk)], check=True)
        server.start()
        self.assert_reads(server, {"a": len(PIECE)})

    def test_a_disk_that_is_not_mounted_is_not_taken_for_an_empty_one(self):
        self.mount()
        server = self.serve()
        self.create(server, "a")
        self.assertEqual(server.stop(), 0)
        subprocess.run(["umount", "--lazy", str(self.disk)], check=True)
        code, said = self.refused("--must-exist")
        self.assertNotEqual(code, 0)
        self.assertNotIn("panicked", said)
        self.assertEqual(list(self.disk.iterdir()), [], "nothing was created")

    @unittest.skipIf(shutil.which("setpriv") is None, "there is no setpriv")
    def test_a_folder_that_may_not_be_opened_is_what_the_failure_is_about(self):
        self.mount("mode=0700")
        pathlib.Path(self.folder).chmod(0o755)
        code, said = self.refused(wrap=AS_NOBODY)
        self.assertNotEqual(code, 0)
        self.assertRegex(said, "data directory(.|\n)*Permission denied")
        self.assertNotIn("--listen", said)

    @unittest.skipIf(shutil.which("setpriv") is None, "there is no setpriv")
    def test_a_folder_that_may_not_be_written_to_any_more(self):
        """What is acknowledged before and after is there; in between nothing is claimed."""
        self.mount(f"size={4 * DISK},mode=0777")
        pathlib.Path(self.folder).chmod(0o755)
        server = self.serve(wrap=AS_NOBODY)
        self.create(server, "a")
        acked = 0
        folders = [path for path in (self.disk / "data").rglob("*") if path.is_dir()]
        for folder in folders:
            folder.chmod(0o555)
        connection, status = server.connect(), 204
        for _ in range(3 * DISK // len(PIECE)):
            try:
                status = server.ask("POST", "/demo/a", PIECE, None, connection).status
            except OSError:
                status = None
            if status != 204:
                break
            acked += len(PIECE)
        connection.close()
        self.assertNotEqual(status, 204, "new log files cannot be made")
        self.assertNotIn("panicked", server.log())
        # As with every call of the log that fails and may not: the next start is the way back.
        self.assertEqual(server.process.wait(SOON_SECONDS), 6)
        for folder in folders:
            folder.chmod(0o755)
        server.restart()
        self.assert_reads(server, {"a": acked})


if __name__ == "__main__":
    unittest.main()
