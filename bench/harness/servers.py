"""The servers: how each is built or installed, started, and ended."""

import os
import shutil
import socket
import subprocess
import tempfile
import time
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
DS_RUST_VERSION = "0.1.5"
NODE_VERSION = "0.3.7"

START_SECONDS_MAX = 20
STOP_SECONDS_MAX = 20


@dataclass(frozen=True)
class Server:
    """One server as the tables name it."""

    name: str
    what: str


SERVERS = {
    server.name: server
    for server in [
        Server("headwater", "this repository, release build"),
        Server("ds-rust", f"crate `durable-streams` {DS_RUST_VERSION}, durable mode (its default)"),
        Server("node", f"`@durable-streams/server` {NODE_VERSION} from npm, file store"),
        Server("ceiling", "hyper that answers 204 and keeps nothing"),
        Server("ceiling-fsync", "hyper that group-commits bodies by `fdatasync`, then answers 204"),
    ]
}


class NotThere(Exception):
    """A server that cannot be built, installed or started, and why."""


class Installation:
    """Where everything lies: our own builds below the target folder, rivals in the cache."""

    def __init__(self, cache):
        self.cache = cache.resolve()
        self.target = Path(os.environ.get("CARGO_TARGET_DIR") or ROOT / "target").resolve()

    @property
    def headwater(self):
        return self.target / "release" / "headwater"

    def prepare(self, name):
        """Installs `name` if it is a rival and not there yet."""
        if name == "ds-rust":
            self._install_ds_rust()
        elif name == "node":
            self._install_node()

    def build(self):
        """Headwater, which is also the client of every measurement, and the ceilings."""
        packages = ["-p", "headwater", "-p", "headwater-ceiling"]
        _run(["cargo", "build", "--release", "--locked", *packages], cwd=ROOT)

    def command(self, name, port, data):
        """The command line that serves `127.0.0.1:port` and keeps its data in `data`."""
        listen = f"127.0.0.1:{port}"
        ceiling = [self.target / "release" / "headwater-ceiling", "--listen", listen]
        match name:
            case "headwater":
                return [self.headwater, "serve", "--listen", listen, "--data-dir", data]
            case "ds-rust":
                return [self._ds_rust, "--port", str(port), "--data-dir", data]
            case "node":
                script = ROOT / "bench" / "node-server.mjs"
                return ["node", script, self.cache / "node", str(port), data]
            case "ceiling":
                return ceiling
            case "ceiling-fsync":
                return [*ceiling, "--fsync", data / "log"]
        raise NotThere(f"no server is named {name}")

    @property
    def _ds_rust(self):
        return self.cache / "bin" / "durable-streams-server"

    def _install_ds_rust(self):
        if not self._ds_rust.exists():
            crate = f"durable-streams@{DS_RUST_VERSION}"
            _run(["cargo", "install", crate, "--locked", "--root", self.cache])

    def _install_node(self):
        folder = self.cache / "node"
        manifest = folder / "node_modules" / "@durable-streams" / "server" / "package.json"
        if manifest.exists() and f'"version": "{NODE_VERSION}"' in manifest.read_text():
            return
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "package.json").write_text('{"name": "headwater-bench-cache", "private": true}\n')
        package = f"@durable-streams/server@{NODE_VERSION}"
        _run(["npm", "install", "--no-audit", "--no-fund", package], cwd=folder)


@contextmanager
def running(installation, name, folder):
    """A server on a fresh data directory below `folder` and a free port: its process and URL."""
    data = Path(tempfile.mkdtemp(prefix=f"{name}-", dir=folder))
    port = _free_port()
    with open(data / "output.txt", "wb") as output:
        (data / "data").mkdir()
        command = [str(part) for part in installation.command(name, port, data / "data")]
        try:
            process = subprocess.Popen(command, stdout=output, stderr=output, cwd=data)
        except OSError as error:
            raise NotThere(f"{name} does not start: {error}") from error
        try:
            _wait_until_ready(name, process, port, data / "output.txt")
            yield process, f"http://127.0.0.1:{port}"
        finally:
            _stop(process)
            shutil.rmtree(data, ignore_errors=True)


def _run(command, cwd=None):
    try:
        subprocess.run([str(part) for part in command], cwd=cwd, check=True)
    except (OSError, subprocess.CalledProcessError) as error:
        raise NotThere(str(error)) from error


def _free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def _wait_until_ready(name, process, port, output):
    limit = time.monotonic() + START_SECONDS_MAX
    while time.monotonic() < limit:
        if process.poll() is not None:
            break
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
            return
        except OSError:
            time.sleep(0.02)
    told = output.read_text(errors="replace").strip().splitlines()[-3:]
    raise NotThere(f"{name} does not start: {' / '.join(told) or 'it says nothing'}")


def _stop(process):
    process.terminate()
    try:
        process.wait(STOP_SECONDS_MAX)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
