"""The server under test as a process: started on a directory, asked, looked at, and ended.

For everything written in Python that needs more than answers: its memory, its descriptors, its
log, a memory limit around it, another program in front of it.
"""

import http.client
import os
import pathlib
import resource
import shutil
import signal
import subprocess
import threading
import time

BINARY = os.environ.get("HEADWATER_BINARY", "target/release/headwater")
BUCKET = "demo"
READY_SECONDS = 60
ANSWER_SECONDS = 60
END_SECONDS = 30


class Answer:
    """Status, headers by lower-case name, and body."""

    def __init__(self, answer):
        self.status = answer.status
        self.headers = {name.lower(): value for name, value in answer.getheaders()}
        self.body = answer.read()

    def __getitem__(self, name):
        return self.headers.get(name)


class Server:
    """A server on `data`, which it may be started on again.

    `wrap` is put in front of the command, `open_files` limits its descriptors, `group` is a
    `MemoryGroup` that it runs in, `log` is where its log goes (beside the data).
    """

    def __init__(self, data, *flags, wrap=(), open_files=None, group=None, environment=None,
                 log=None):
        self.data, self.flags, self.wrap, self.group = data, flags, wrap, group
        self.open_files, self.environment = open_files, environment or {}
        self.log_path = log or f"{data}.log"
        self.process = None
        self.start()

    def start(self):
        command = [*self.wrap, BINARY, "serve", "--listen", "127.0.0.1:0"]
        command += ["--data-dir", self.data, "--bucket", BUCKET, *self.flags]
        kept = {k: v for k, v in os.environ.items() if not k.startswith("HEADWATER_")}
        with open(self.log_path, "ab") as log:
            self.process = subprocess.Popen(
                command,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                env={**kept, **self.environment},
                preexec_fn=self._prepare,
            )
        watchdog = threading.Timer(READY_SECONDS, self.process.kill)
        watchdog.start()
        line = self.process.stdout.readline().strip()
        watchdog.cancel()
        assert line.startswith("listening on http://"), f"{line!r}; {self.log()[-2000:]}"
        self.port = int(line.rsplit(":", 1)[1])
        self.pid = self._server_pid()

    def _prepare(self):
        if self.open_files:
            resource.setrlimit(resource.RLIMIT_NOFILE, (self.open_files, self.open_files))
        if self.group:
            self.group.enter(os.getpid())

    def _server_pid(self):
        """Its own process, though what is in front of it may have started it as a child."""
        pid = self.process.pid
        name = pathlib.Path(BINARY).name[:15]
        while pathlib.Path(f"/proc/{pid}/comm").read_text().strip() != name:
            pid = int(pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split()[0])
        return pid

    def connect(self):
        return http.client.HTTPConnection("127.0.0.1", self.port, timeout=ANSWER_SECONDS)

    def ask(self, method, path, body=None, headers=None, connection=None):
        """The answer; on a connection of its own unless one is given."""
        own = connection or self.connect()
        given = dict(headers or {})
        if body is not None:
            given.setdefault("Content-Type", "text/plain")
        try:
            own.request(method, path, body, given)
            return Answer(own.getresponse())
        finally:
            if connection is None:
                own.close()

    def _status(self, name):
        for line in pathlib.Path(f"/proc/{self.pid}/status").read_text().splitlines():
            if line.startswith(name + ":"):
                return int(line.split()[1]) * 1024
        # A process that has ended has none.
        return 0

    def memory(self):
        """Resident bytes."""
        return self._status("VmRSS")

    def memory_peak(self):
        """The most resident bytes that there ever were."""
        return self._status("VmHWM")

    def descriptors(self):
        return len(os.listdir(f"/proc/{self.pid}/fd"))

    def log(self):
        return pathlib.Path(self.log_path).read_text(errors="replace")

    def is_running(self):
        return self.process.poll() is None

    def terminate(self):
        os.kill(self.pid, signal.SIGTERM)

    def stop(self):
        """Drains it; its exit code."""
        self.terminate()
        code = self.process.wait(END_SECONDS)
        self.process.stdout.close()
        return code

    def kill(self):
        if self.process.poll() is None:
            os.kill(self.pid, signal.SIGKILL)
        self.process.wait()
        self.process.stdout.close()

    def restart(self):
        self.kill()
        self.start()


class MemoryGroup:
    """A memory limit by a control group, version 1 or 2; `None` from `make` where there is none.

    It counts what the kernel keeps for the process, too: its page cache, and its dirty pages.
    """

    V1 = pathlib.Path("/sys/fs/cgroup/memory")
    V2 = pathlib.Path("/sys/fs/cgroup")

    @classmethod
    def make(cls, name, limit):
        first = (cls.V1 / "memory.limit_in_bytes").exists()
        root = cls.V1 if first else cls.V2
        folder = root / f"{name}-{os.getpid()}"
        try:
            folder.mkdir()
            group = cls(folder, first)
            files = ["memory.limit_in_bytes"] if first else ["memory.max"]
            for file in files:
                (folder / file).write_text(str(limit))
            return group
        except OSError:
            if folder.exists():
                folder.rmdir()
            return None

    def __init__(self, folder, first):
        self.folder, self.first = folder, first

    def enter(self, pid):
        (self.folder / "cgroup.procs").write_text(str(pid))

    def peak(self):
        name = "memory.max_usage_in_bytes" if self.first else "memory.peak"
        return int((self.folder / name).read_text())

    def kills(self):
        """How many processes it has killed."""
        name = "memory.oom_control" if self.first else "memory.events"
        for line in (self.folder / name).read_text().splitlines():
            key, _, value = line.partition(" ")
            if key == "oom_kill":
                return int(value)
        return 0

    def remove(self):
        """After the end of its processes, which the kernel may take a moment to forget."""
        for _ in range(100):
            try:
                self.folder.rmdir()
                return
            except OSError:
                time.sleep(0.05)


def eventually(what, within, done):
    """Waits until `done()` is true."""
    deadline = time.monotonic() + within
    while not done():
        assert time.monotonic() < deadline, f"never happened: {what}"
        time.sleep(0.05)


def missing(*programs):
    """Those of `programs` that are not installed; `/usr/sbin` counts."""
    path = os.environ.get("PATH", "") + ":/usr/sbin:/sbin"
    return [program for program in programs if not shutil.which(program, path=path)]
