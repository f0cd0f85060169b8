"""Clients that behave: producers that append at a steady pace, and live readers that miss nothing.

Runs in a process of its own, so that its times are not those of the crowd. Reads commands from its
standard input: `mark NAME` begins a phase of the measurement, `end` stops the writers, waits until
every reader has every byte, and prints the result as JSON.
"""

import asyncio
import json
import subprocess
import sys
import time

#: An append every so often by each writer.
PACE_SECONDS = 0.05
RETRY_SECONDS = 0.2
#: How long the readers may need for what is left at the end.
CATCH_UP_SECONDS = 120
MESSAGE_BYTES = 200


def message(writer, number):
    """Unlike every other, and of one line."""
    text = f"<w{writer} n{number} "
    return text + "x" * (MESSAGE_BYTES - len(text) - 2) + ">\n"


class Wire:
    """A connection that stays, and is made anew when it has ended."""

    def __init__(self, port):
        self.port, self.reader, self.writer = port, None, None

    async def ask(self, method, path, headers, body=b""):
        """Status and body; `None` when the connection has ended without an answer."""
        try:
            if self.writer is None:
                self.reader, self.writer = await asyncio.open_connection("127.0.0.1", self.port)
            head = f"{method} {path} HTTP/1.1\r\nHost: healthy\r\n{headers}"
            if method in ("PUT", "POST"):
                head += f"Content-Length: {len(body)}\r\n"
            self.writer.write(head.encode() + b"\r\n" + body)
            head = (await self.reader.readuntil(b"\r\n\r\n")).decode()
            length = next(
                (line for line in head.lower().split("\r\n") if line.startswith("content-length")),
                "content-length: 0",
            )
            content = await self.reader.readexactly(int(length.split(":")[1]))
            if "connection: close" in head.lower():
                self.close()
            return int(head.split(" ")[1]), content
        except (OSError, asyncio.IncompleteReadError):
            self.close()
            return None

    def close(self):
        if self.writer:
            self.writer.close()
        self.writer = None


class Healthy:
    def __init__(self, port, pairs):
        self.port, self.pairs = port, pairs
        self.phase, self.times = "alone", {"alone": []}
        self.sent = [0] * pairs
        self.got = [0] * pairs
        self.retries, self.cuts, self.failures = 0, 0, []
        self.writing = True

    async def write(self, no):
        """One producer: a message that had no answer, or a refusal for now, is sent again."""
        wire = Wire(self.port)
        while self.writing:
            begun, phase = time.monotonic(), self.phase
            number = self.sent[no]
            headers = "Content-Type: text/plain\r\nProducer-Id: p\r\nProducer-Epoch: 0\r\n"
            headers += f"Producer-Seq: {number}\r\n"
            body = message(no, number).encode()
            while True:
                answer = await wire.ask("POST", f"/demo/healthy{no}", headers, body)
                if answer and answer[0] in (200, 204):
                    break
                if answer and answer[0] not in (408, 429, 503):
                    self.failures.append(f"append {number} of {no}: {answer}")
                    return
                self.retries += 1
                await asyncio.sleep(RETRY_SECONDS)
            self.sent[no] = number + 1
            took = time.monotonic() - begun
            self.times.setdefault(phase, []).append(took)
            await asyncio.sleep(max(0, PACE_SECONDS - took))
        wire.close()

    async def read(self, no):
        """One live reader: each message once and in order, over all its connections."""
        offset = "-1"
        while True:
            try:
                offset = await self.follow(no, offset)
            except (OSError, asyncio.IncompleteReadError):
                self.cuts += 1
                await asyncio.sleep(RETRY_SECONDS)

    async def follow(self, no, offset):
        """Reads one answer to its end; the offset to go on from."""
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port, limit=1 << 24)
        pending, data, kind = [], [], ""
        try:
            path = f"/demo/healthy{no}?offset={offset}&live=sse"
            writer.write(f"GET {path} HTTP/1.0\r\nHost: healthy\r\n\r\n".encode())
            head = (await reader.readuntil(b"\r\n\r\n")).decode()
            if head.split(" ")[1] != "200":
                raise OSError(head)
            while line := await reader.readline():
                line = line.decode().removesuffix("\n")
                if line.startswith("event: "):
                    kind = line.removeprefix("event: ")
                elif line.startswith("data:"):
                    data.append(line.removeprefix("data:"))
                elif not line and kind == "data":
                    pending += [text + "\n" for text in data if text]
                elif not line and kind == "control":
                    # What came counts when the place behind it is known.
                    offset = json.loads("\n".join(data))["streamNextOffset"]
                    self.take(no, pending)
                    pending = []
                if not line:
                    data, kind = [], ""
        finally:
            writer.close()
        return offset

    def take(self, no, messages):
        for text in messages:
            expected = message(no, self.got[no])
            if text != expected:
                self.failures.append(f"reader {no} expected {expected!r}, got {text!r}")
            self.got[no] += 1

    async def command(self):
        loop = asyncio.get_running_loop()
        reader = asyncio.StreamReader()
        await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
        while line := (await reader.readline()).decode().split():
            if line[0] == "end":
                return
            self.phase = line[1]

    async def run(self):
        wire = Wire(self.port)
        for no in range(self.pairs):
            answer = await wire.ask("PUT", f"/demo/healthy{no}", "Content-Type: text/plain\r\n")
            assert answer and answer[0] == 201, answer
        writers = [asyncio.create_task(self.write(no)) for no in range(self.pairs)]
        readers = [asyncio.create_task(self.read(no)) for no in range(self.pairs)]
        await self.command()
        self.writing = False
        await asyncio.gather(*writers)
        deadline = time.monotonic() + CATCH_UP_SECONDS
        while self.got != self.sent and time.monotonic() < deadline:
            await asyncio.sleep(0.05)
        for reader in readers:
            reader.cancel()
        if self.got != self.sent:
            self.failures.append(f"sent {self.sent}, readers got {self.got}")
        return self.result()

    def result(self):
        phases = {}
        for name, times in self.times.items():
            times.sort()
            at = lambda share: round(times[min(len(times) - 1, int(share * len(times)))] * 1000, 1)
            phases[name] = {"appends": len(times), "p50": at(0.5), "p99": at(0.99), "max": at(1)}
        return {
            "phases": phases,
            "messages": sum(self.sent),
            "sent": self.sent,
            "retries": self.retries,
            "reader_cuts": self.cuts,
            "failures": self.failures,
        }


class Process:
    """The healthy clients, from the process that watches them."""

    def __init__(self, port, pairs):
        command = [sys.executable, __file__, str(port), str(pairs)]
        pipe = subprocess.PIPE
        self.process = subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True)

    def mark(self, phase):
        self.process.stdin.write(f"mark {phase}\n")
        self.process.stdin.flush()

    def kill(self):
        self.process.kill()
        self.process.wait()

    async def end(self):
        """The result; the event loop goes on meanwhile."""
        loop = asyncio.get_running_loop()
        output, _ = await loop.run_in_executor(None, self.process.communicate, "end\n")
        return json.loads(output)


if __name__ == "__main__":
    print(json.dumps(asyncio.run(Healthy(int(sys.argv[1]), int(sys.argv[2])).run())))
