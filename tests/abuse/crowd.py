"""Clients that do not behave, one class for each way, all on one event loop.

Each way is a coroutine that goes on until it is cancelled; what a server answers or refuses is not
judged here but counted. Judging is what the healthy clients and the look at the process are for.
"""

import asyncio
import collections
import os
import random
import re
import socket
import struct

MIB = 1 << 20
#: A closed connection is not made again before this, so that the crowd does not spin.
PAUSE_SECONDS = 0.5
HEAD = "Host: crowd\r\n"


def request(method, path, headers="", body=b""):
    if method in ("PUT", "POST") and "Transfer-Encoding" not in headers:
        if "Content-Length" not in headers:
            headers += f"Content-Length: {len(body)}\r\n"
        if "Content-Type" not in headers:
            headers += "Content-Type: text/plain\r\n"
    return f"{method} {path} HTTP/1.1\r\n{HEAD}{headers}\r\n".encode() + body


class Idle(asyncio.Protocol):
    """A live reader of a stream in which nothing happens: comes back when its answer has ended."""

    def __init__(self, crowd, path):
        self.crowd, self.path = crowd, path

    def connection_made(self, transport):
        transport.write(request("GET", self.path))
        self.answered = False
        self.transport = transport
        self.crowd.open.add(transport)

    def data_received(self, data):
        if not self.answered:
            self.answered = True
            self.crowd.count(f"idle reader {data[9:12].decode(errors='replace')}")
            self.crowd.idle += 1

    def connection_lost(self, error):
        self.crowd.idle -= self.answered
        self.crowd.open.discard(self.transport)
        if not self.crowd.over:
            asyncio.get_running_loop().call_later(
                PAUSE_SECONDS + random.random(), self.crowd.begin_idle, self.path
            )


class Crowd:
    def __init__(self, port):
        self.port = port
        self.counts = collections.Counter()
        self.idle, self.open, self.over, self.tasks = 0, set(), False, set()

    def count(self, what):
        self.counts[what] += 1

    def begin(self, way, *arguments, times=1):
        """Starts `times` clients of a way, each of which goes on for ever."""
        for no in range(times):
            self.keep(self.again(way, no, *arguments))

    def keep(self, coroutine):
        task = asyncio.get_running_loop().create_task(coroutine)
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)

    async def again(self, way, no, *arguments):
        while True:
            try:
                await way(no, *arguments)
            except (OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
                self.count(f"{way.__name__} cut")
            await asyncio.sleep(PAUSE_SECONDS + random.random())

    async def end(self):
        self.over = True
        tasks = list(self.tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for transport in list(self.open):
            transport.abort()
        await asyncio.sleep(0)

    # Live readers.

    def begin_idle(self, path):
        async def connect():
            try:
                loop = asyncio.get_running_loop()
                await loop.create_connection(lambda: Idle(self, path), "127.0.0.1", self.port)
            except OSError:
                await asyncio.sleep(PAUSE_SECONDS)
                if not self.over:
                    self.begin_idle(path)

        self.keep(connect())

    # Raw sockets: what a stream of asyncio would read ahead is read by nobody here.

    async def connect(self, receive=None):
        # The last reference closes it, also when the task is cancelled.
        wire = socket.socket()
        wire.setblocking(False)
        if receive:
            wire.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive)
        await asyncio.get_running_loop().sock_connect(wire, ("127.0.0.1", self.port))
        return wire

    async def send(self, wire, data):
        await asyncio.get_running_loop().sock_sendall(wire, data)

    async def ask(self, what, data):
        """Sends all of it and counts the status of the answer, which it does not read on."""
        with await self.connect() as wire:
            loop = asyncio.get_running_loop()
            answer = loop.create_task(loop.sock_recv(wire, 64 * 1024))
            try:
                await self.send(wire, data)
            except OSError:
                # An early refusal may be there though the rest was not taken.
                pass
            head = await answer
            self.count(f"{what} {head[9:12].decode(errors='replace') or 'cut'}")
            return head

    async def slow_reader(self, no, path):
        """A kilobyte a second."""
        with await self.connect(receive=4096) as wire:
            await self.send(wire, request("GET", path))
            loop = asyncio.get_running_loop()
            while await loop.sock_recv(wire, 1024):
                await asyncio.sleep(1)
            self.count("slow_reader ended")

    async def never_reader(self, no, paths):
        """Asks for much and takes nothing, until the server has enough of it."""
        with await self.connect(receive=4096) as wire:
            await self.send(wire, request("GET", paths[no % len(paths)]))
            # Asks for errors only: what has arrived stays in the buffer of the kernel.
            while not wire.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR):
                await asyncio.sleep(1)
            self.count("never_reader reset")

    async def slow_head(self, no):
        """A byte a second of a head that never ends."""
        with await self.connect() as wire:
            await self.send(wire, b"GET /demo HTTP/1.1\r\nX-")
            while True:
                await self.send(wire, b"a")
                await asyncio.sleep(1)

    async def slow_body(self, no, path):
        """A byte a second of a body of a megabyte."""
        with await self.connect() as wire:
            await self.send(wire, request("POST", path, f"Content-Length: {MIB}\r\n"))
            while True:
                await self.send(wire, b"a")
                await asyncio.sleep(1)

    async def head_bomb(self, no):
        big = "a" * MIB
        for what, path, headers in [
            ("large header", "/demo/fat", f"X-Big: {big}\r\n"),
            ("many headers", "/demo/fat", "".join(f"X-{n}: {n}\r\n" for n in range(10_000))),
            ("large target", f"/demo/{big}", ""),
            ("large query", f"/demo/fat?offset={big}", ""),
            ("large producer", "/demo/fat", f"Producer-Id: {big}\r\n"),
            ("large type", "/demo/fat", f"Content-Type: text/{big}\r\n"),
        ]:
            await self.ask(what, request("GET", path, headers))

    async def body_bomb(self, no):
        zeros = bytes(8 * MIB)
        chunk = f"{len(zeros):x}\r\n".encode() + zeros + b"\r\n"
        endless = "Transfer-Encoding: chunked\r\nContent-Type: text/plain\r\n"
        json = "Content-Type: application/json\r\n"
        declared = lambda length: request("POST", "/demo/sink", f"Content-Length: {length}\r\n")
        many = b"[" + b"1," * (2 * MIB) + b"1]"
        for what, data in [
            ("declared 1 GiB", declared(1 << 30)),
            ("chunks without end", request("POST", "/demo/sink", endless) + chunk * 6),
            ("declared, not sent", declared(16 * MIB)),
            ("gzip", request("POST", "/demo/sink", "Content-Encoding: gzip\r\n", zeros)),
            ("deep JSON", request("POST", "/demo/json", json, b"[" * (4 * MIB))),
            ("deep objects", request("POST", "/demo/json", json, b'{"a":' * MIB)),
            ("many elements", request("POST", "/demo/json", json, many)),
            ("spaces", request("POST", "/demo/json", json, b" " * (16 * MIB))),
            ("no JSON", request("POST", "/demo/json", json, b'["' + zeros)),
            ("many frames", request("POST", "/demo/sink/append-batch", "", bytes(4) * MIB)),
        ]:
            if what == "declared, not sent":
                with await self.connect() as wire:
                    await self.send(wire, data)
                    await asyncio.sleep(2)
                self.count(what)
            else:
                await self.ask(what, data)

    async def churn(self, no):
        """Comes and goes: with nothing, half a request, or a whole one whose answer it ignores."""
        whole = request("GET", "/demo/fat?offset=-1")
        for data in [b"", b"GET /de", whole, whole[:-1], request("POST", "/demo/sink", "", b"x")]:
            with await self.connect() as wire:
                await self.send(wire, data)
                if random.random() < 0.5:
                    # A reset instead of an end.
                    linger = struct.pack("ii", 1, 0)
                    wire.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
            self.count("churn")
            await asyncio.sleep(0.02)

    async def hoard(self, no, wires, seconds, every):
        """Takes all the connections that it can get, holds them for a while, and lets them go."""
        await asyncio.sleep(every)
        held = []
        try:
            for _ in range(wires):
                held.append(await self.connect())
            self.count("hoard")
            await asyncio.sleep(seconds)
        finally:
            for wire in held:
                wire.close()

    async def lifecycle(self, no):
        """Streams and buckets that live for a moment."""
        bucket = f"/crowd-{no}"
        await self.ask("bucket made", request("PUT", bucket))
        for number in range(20):
            path = f"{bucket}/{number}"
            await self.ask("stream made", request("PUT", path, "", os.urandom(1000)))
            await self.ask("append", request("POST", path, "", os.urandom(1000)))
            await self.ask("closed", request("POST", path, "Stream-Closed: true\r\n"))
            await self.ask("stream deleted", request("DELETE", path))
        await self.ask("bucket deleted", request("DELETE", bucket))

    async def snapshot(self, no, size):
        """A large snapshot at the tail, and its bytes read back."""
        path = f"/demo/snapped{no}"
        await self.ask("snapped made", request("PUT", path))
        head = await self.ask("snapped append", request("POST", path, "", b"x" * 100))
        found = re.search(rb"(?i)\r\nstream-next-offset: (\d+)", head)
        if not found:
            return
        at = found[1].decode()
        body = os.urandom(1024) * (size // 1024)
        head = await self.ask("snapshot", request("PUT", f"{path}/snapshot/{at}", "", body))
        if b" 204 " not in head[:16]:
            return
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        try:
            writer.write(request("GET", f"{path}/snapshot/{at}"))
            await reader.readuntil(b"\r\n\r\n")
            same = await reader.readexactly(len(body)) == body
            self.count("snapshot read" if same else "SNAPSHOT DIFFERS")
        finally:
            writer.close()
