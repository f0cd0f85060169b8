"""The binary while its wall clock jumps: by hours and days, back, past 2038 and to 2100.

`faketime` is between the binary and the clock; what it says is changed while the server runs. Only
the wall clock jumps: that of durations is monotonic by what the kernel promises.
"""

import json
import pathlib
import subprocess
import sys
import tempfile
import time
import unittest

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "support"))

from server import Server, missing

JUMPS = [
    "+0", "+1h", "-1h", "+1d", "-1d", "+0",
    # Across the end of 32-bit seconds, and into a century that is no leap year.
    "@2038-01-19 03:14:06", "@2100-02-28 23:59:58", "@1970-01-02 00:00:00", "+0",
]
TTL_SECONDS = 4
POLL_SECONDS = 1

if missing("faketime"):
    print("\n*** SKIPPED: faketime is not installed, no clock jumped ***\n", flush=True)


@unittest.skipIf(missing("faketime"), "faketime is not installed")
class Jumps(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="headwater-clock-")
        self.addCleanup(folder.cleanup)
        self.says = pathlib.Path(folder.name, "now")
        self.set("+0")
        told = subprocess.run(
            ["faketime", "-m", "-f", "+0", "env"], capture_output=True, text=True, check=True
        )
        library = next(l for l in told.stdout.splitlines() if l.startswith("LD_PRELOAD="))
        environment = {
            "LD_PRELOAD": library.partition("=")[2],
            "FAKETIME_TIMESTAMP_FILE": str(self.says),
            "FAKETIME_NO_CACHE": "1",
            "FAKETIME_DONT_FAKE_MONOTONIC": "1",
            "DONT_FAKE_MONOTONIC": "1",
        }
        self.server = Server(
            f"{folder.name}/data", "--long-poll-timeout", f"{POLL_SECONDS}s",
            "--sse-max-duration", "60s", environment=environment,
        )
        self.addCleanup(lambda: self.server.is_running() and self.server.kill())

    def set(self, moment):
        # In one step: half a file is no moment.
        beside = self.says.with_suffix(".new")
        beside.write_text(moment + "\n")
        beside.rename(self.says)

    def times(self):
        """What the listing says of the stream: when it was made, and last written to."""
        page = json.loads(self.server.ask("GET", "/demo/streams?prefix=log").body)
        entry = page["streams"][0]
        return entry["created_at_ms"], entry["last_write_at_ms"]

    def test_nothing_is_lost_early_or_backwards_while_the_clock_jumps(self):
        server, sent, newest = self.server, b"", 0
        self.assertEqual(server.ask("PUT", "/demo/log", b"").status, 201)
        made = self.times()[0]
        self.assertGreater(made, 1_600_000_000_000)
        cursor = "0"
        for number, moment in enumerate(JUMPS):
            with self.subTest(moment=moment):
                ttl = {"Stream-TTL": str(TTL_SECONDS)}
                self.assertEqual(server.ask("PUT", f"/demo/ttl{number}", b"x", ttl).status, 201)
                begun = time.monotonic()
                self.set(moment)
                # A jump ends no window: this one is measured, not compared with a calendar.
                piece = f"<{number}>".encode()
                self.assertEqual(server.ask("POST", "/demo/log", piece).status, 204)
                sent += piece
                self.assertEqual(server.ask("GET", "/demo/log?offset=-1").body, sent)
                alive = server.ask("HEAD", f"/demo/ttl{number}").status
                if time.monotonic() - begun < TTL_SECONDS:
                    self.assertEqual(alive, 200)
                was, newest = newest, self.times()[1]
                self.assertGreaterEqual(newest, was, "node time never goes back")
                self.assertEqual(self.times()[0], made)
                # A wait lasts as long as it should, whatever the calendar says.
                target = f"/demo/log?offset={len(sent):020}&live=long-poll&cursor={cursor}"
                begun = time.monotonic()
                polled = server.ask("GET", target)
                took = time.monotonic() - begun
                self.assertEqual(polled.status, 204)
                self.assertTrue(0.9 * POLL_SECONDS < took < POLL_SECONDS + 10, took)
                self.assertGreater(int(polled["stream-cursor"]), int(cursor))
                cursor = polled["stream-cursor"]
        self.restarts(sent, newest)

    def restarts(self, sent, newest):
        """A start at any moment finds everything, and node time goes on from the newest."""
        server = self.server
        for moment in JUMPS:
            with self.subTest(restart=moment):
                self.set(moment)
                server.restart()
                self.assertEqual(server.ask("GET", "/demo/log?offset=-1").body, sent)
                self.assertEqual(server.ask("POST", "/demo/log", b".").status, 204)
                sent += b"."
                was, newest = newest, self.times()[1]
                self.assertGreaterEqual(newest, was)
        self.assertNotIn("panicked", server.log())

    def test_an_instant_is_compared_with_the_calendar(self):
        server = self.server
        for number, instant in enumerate(["2038-01-19T03:14:08Z", "2100-03-01T00:00:00Z"]):
            self.set("+0")
            path, expires = f"/demo/until{number}", {"Stream-Expires-At": instant}
            self.assertEqual(server.ask("PUT", path, b"x", expires).status, 201)
            day, clock = instant.rstrip("Z").split("T")
            for moment, status in [
                (f"@{int(day[:4]) - 1}{day[4:]} {clock}", 200),
                (f"@{int(day[:4]) + 1}{day[4:]} {clock}", 404),
                # What has been told to be gone stays gone.
                ("+0", 404),
            ]:
                self.set(moment)
                self.assertEqual(server.ask("GET", path).status, status, (instant, moment))


if __name__ == "__main__":
    unittest.main()
