"""Where the server is: HEADWATER_URL names a running one, HEADWATER_BINARY one to start here."""

import os
import signal
import subprocess
import tempfile
import threading
import uuid

import httpx
import pytest

READY_SECONDS = 30
DRAIN_SECONDS = 15
BUCKET = "python-client"


@pytest.fixture(scope="session")
def server():
    """Base URL of the server, without a trailing slash."""
    url = os.environ.get("HEADWATER_URL")
    if url:
        yield url.rstrip("/")
        return
    binary = os.environ.get("HEADWATER_BINARY")
    if not binary:
        pytest.exit("set HEADWATER_URL or HEADWATER_BINARY", returncode=2)
    with tempfile.TemporaryDirectory(prefix="headwater-test-") as data:
        command = [binary, "serve", "--listen", "127.0.0.1:0", "--data-dir", data]
        process = subprocess.Popen(
            [*command, "--long-poll-timeout", "500ms"], stdout=subprocess.PIPE, text=True
        )
        # A server that never gets ready must not hang the tests: its end ends the read below.
        watchdog = threading.Timer(READY_SECONDS, process.kill)
        watchdog.start()
        try:
            line = process.stdout.readline().strip()
            watchdog.cancel()
            assert line.startswith("listening on http://"), f"first line of the server: {line!r}"
            yield line.removeprefix("listening on ")
            process.send_signal(signal.SIGTERM)
            assert process.wait(DRAIN_SECONDS) == 0, "SIGTERM ends the server with exit code 0"
        finally:
            watchdog.cancel()
            if process.poll() is None:
                process.kill()
                process.wait()


@pytest.fixture(scope="session")
def bucket(server):
    """A bucket that the tests share; a running server may have it from an earlier run."""
    answer = httpx.put(f"{server}/{BUCKET}")
    assert answer.status_code in (201, 409), answer.text
    return BUCKET


@pytest.fixture(params=["/v1/stream/python", "/ds/{}", "/{}"], ids=["base", "ds", "root"])
def url(server, bucket, request):
    """URL of a stream that does not exist yet, on each of the three surfaces."""
    return f"{server}{request.param.format(bucket)}/{uuid.uuid4()}"
