"""The server under strace: start it, attach, ask, and read what it asked of the kernel."""

import http.client
import os
import pathlib
import re
import signal
import subprocess
import tempfile
import threading

BINARY = os.environ.get("HEADWATER_BINARY", "target/release/headwater")
BUCKET = "traced"
READY_SECONDS = 30
ANSWER_SECONDS = 20
END_SECONDS = 20


class Server:
    """A server on a directory of its own, which it may be started on again."""

    def __init__(self, data, *flags, preload=None):
        self.data, self.flags, self.preload = data, flags, preload
        self.process = None
        self.start()

    def start(self):
        command = [BINARY, "serve", "--listen", "127.0.0.1:0", "--data-dir", self.data]
        kept = {k: v for k, v in os.environ.items() if not k.startswith("HEADWATER_")}
        if self.preload:
            kept["LD_PRELOAD"] = self.preload
        self.process = subprocess.Popen(
            [*command, "--log-level", "error", "--bucket", BUCKET, *self.flags],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            env=kept,
        )
        watchdog = threading.Timer(READY_SECONDS, self.process.kill)
        watchdog.start()
        line = self.process.stdout.readline().strip()
        watchdog.cancel()
        assert line.startswith("listening on http://"), f"first line of the server: {line!r}"
        self.port = int(line.rsplit(":", 1)[1])

    def connect(self):
        return http.client.HTTPConnection("127.0.0.1", self.port, timeout=ANSWER_SECONDS)

    def ask(self, method, path, body=None, connection=None):
        """Status and body; None without an answer."""
        own = connection or self.connect()
        try:
            headers = {"Content-Type": "text/plain"} if body is not None else {}
            own.request(method, path, body, headers)
            answer = own.getresponse()
            return answer.status, answer.read()
        except (OSError, http.client.HTTPException):
            return None
        finally:
            if connection is None:
                own.close()

    def kill(self):
        if self.process and self.process.poll() is None:
            self.process.kill()
        if self.process:
            self.process.wait()
            self.process.stdout.close()
            self.process = None

    def restart(self):
        self.kill()
        self.start()

    def exit_code(self):
        return self.process.wait(END_SECONDS)


class Strace:
    """strace, attached to all threads of a server until it is stopped or the server ends."""

    def __init__(self, server, *arguments):
        self.file = tempfile.NamedTemporaryFile(prefix="headwater-strace-", delete=False)
        command = ["strace", "-f", "-o", self.file.name, *arguments, "-p", str(server.process.pid)]
        self.process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
        watchdog = threading.Timer(READY_SECONDS, self.process.kill)
        watchdog.start()
        line = self.process.stderr.readline()
        watchdog.cancel()
        assert "attached" in line, f"strace says: {line!r}"
        # What else it says must not stop it.
        self.reader = threading.Thread(target=self.process.stderr.read, daemon=True)
        self.reader.start()

    def stop(self):
        """Detaches; the calls that were seen."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGINT)
        self.process.wait(END_SECONDS)
        self.reader.join()
        self.process.stderr.close()
        self.file.close()
        text = pathlib.Path(self.file.name).read_text(errors="replace")
        os.unlink(self.file.name)
        return calls(text)


class Call:
    """One system call: the lines of the trace at which it began and ended (None: it did not)."""

    def __init__(self, name, began):
        self.name, self.text, self.began, self.ended, self.result = name, "", began, None, None

    def take(self, text, line):
        self.text += text
        found = re.search(r"\)\s+= (-?\d+)[^=]*$", text)
        if found:
            self.ended, self.result = line, int(found[1])

    def descriptor(self):
        """What the first argument stands for, as `-yy` tells it."""
        found = re.match(r"\d+<(.*?)>\s*[,)]", self.text)
        return found[1] if found else None


def calls(text):
    """The calls of a trace, in the order in which they began."""
    found, open_calls = [], {}
    for number, line in enumerate(text.splitlines()):
        pid, _, rest = line.partition(" ")
        rest = rest.lstrip()
        resumed = re.match(r"<\.\.\. (\w+) resumed>", rest)
        if resumed and pid in open_calls:
            open_calls.pop(pid).take(rest[resumed.end() :], number)
            continue
        begun = re.match(r"(\w+)\(", rest)
        if not begun:
            continue
        call = Call(begun[1], number)
        found.append(call)
        if rest.endswith("<unfinished ...>"):
            call.text = rest[begun.end() : -len("<unfinished ...>")]
            open_calls[pid] = call
        else:
            call.take(rest[begun.end() :], number)
    return found
