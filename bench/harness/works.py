"""What is measured, on which servers, and which figures are the aim."""

from dataclasses import dataclass

STORES = ("headwater", "ds-rust", "node")
DURABLE = (*STORES, "ceiling-fsync")
EVERY = (*DURABLE, "ceiling")
OURS = ("headwater",)


@dataclass(frozen=True)
class Target:
    """An aim for one of Headwater's figures.

    `limit` bounds the figure itself or, with `against`, its ratio to the same figure of that
    server, or ("work:NAME") of that work on Headwater itself.
    """

    figure: str
    limit: float
    at_most: bool = False
    against: str | None = None

    def __str__(self):
        sign = "≤" if self.at_most else "≥"
        if self.against is None:
            return f"{sign} {self.limit:g}"
        return f"{sign} {self.limit:g} × {self.against.removeprefix('work:')}"


@dataclass(frozen=True)
class Work:
    """One call of `headwater bench`, the figures that its table shows, and its aims.

    The first figure is the one whose ratios the table shows.
    """

    name: str
    title: str
    arguments: tuple
    figures: tuple
    servers: tuple
    targets: tuple = ()
    takes_seconds: bool = True
    takes_warm_up: bool = False


CPU = "server_cpu_us_per_op"
APPEND_FIGURES = ("appends_per_s", "p50_ms", "p99_ms", CPU, "server_rss_mb", "failed")


def _append(name, title, streams, *more, size=256, connections=64, servers=DURABLE, targets=()):
    load = ("--connections", connections, "--streams", streams, "--size", size)
    arguments = ("append", *load, *more)
    return Work(name, title, arguments, APPEND_FIGURES, servers, targets, takes_warm_up=True)


def _many_appends(streams):
    return _append(
        f"append-{streams}",
        f"Append 256 B, 64 connections, {streams:,} stream{'s' if streams > 1 else ''}",
        streams,
        servers=EVERY,
        targets=(
            Target("appends_per_s", 1.3, against="ds-rust"),
            Target("appends_per_s", 1.0, against="ceiling-fsync"),
            Target(CPU, 0.7, at_most=True, against="ds-rust"),
        ),
    )


def _catch_up(readers):
    targets = [Target("mb_per_s", 0.8, against="ds-rust")]
    if readers == 1:
        targets += [
            Target("write_mb_per_s", 1.1, against="ds-rust"),
            Target("server_written_per_byte", 1.1, at_most=True),
        ]
    return Work(
        f"catch-up-{readers}",
        f"Write 256 MiB in 64 KiB appends, then read it all with {readers} at a time",
        ("catch-up", "--bytes", "256MiB", "--size", "64KiB", "--readers", readers),
        (
            "mb_per_s",
            "server_cpu_us_per_mb",
            "write_mb_per_s",
            "server_written_per_byte",
            "server_rss_mb",
            "failed",
        ),
        STORES,
        tuple(targets),
    )


WORKS = {
    work.name: work
    for work in [
        _many_appends(1),
        _many_appends(64),
        _many_appends(1000),
        _append(
            "append-16k",
            "Append 16 KiB, 64 connections, 64 streams",
            64,
            size="16KiB",
            targets=(Target("appends_per_s", 1.5, against="ds-rust"),),
        ),
        _append(
            "append-alone",
            "Append 256 B, one connection, one stream",
            1,
            connections=1,
            targets=(Target("appends_per_s", 1.0, against="ds-rust"),),
        ),
        Work(
            "open-loop",
            "Append 256 B at 5,000/s, latency from when each was due",
            ("open-loop", "--rate", 5000),
            ("p99_ms", "p50_ms", "p999_ms", "appends_per_s", CPU, "failed"),
            DURABLE,
            (Target("p99_ms", 1.0, at_most=True, against="ds-rust"),),
            takes_warm_up=True,
        ),
        _append(
            "append-batch",
            "Append 256 B in batches of 100, 64 connections, 64 streams",
            64,
            "--batch",
            100,
            servers=OURS,
            targets=(Target("appends_per_s", 10, against="work:append-64"),),
        ),
        Work(
            "fan-out",
            "Deliver 10 messages/s to 1,000 SSE readers of one stream",
            ("fan-out", "--readers", 1000, "--rate", 10),
            (
                "p99_ms",
                "p50_ms",
                "max_ms",
                "deliveries",
                CPU,
                "server_rss_mb",
                "lost",
                "doubled",
                "failed",
            ),
            STORES,
            (
                Target("p99_ms", 1.0, at_most=True, against="ds-rust"),
                Target("lost", 0, at_most=True),
                Target("doubled", 0, at_most=True),
            ),
            takes_warm_up=True,
        ),
        _catch_up(1),
        _catch_up(8),
        Work(
            "replay",
            "Read 1,000 JSON streams of 1,000 messages of 100 B, each whole",
            ("replay", "--streams", 1000, "--messages", 1000, "--size", 100),
            ("streams_per_s", "mb_per_s", "p99_ms", CPU, "server_rss_mb", "failed"),
            STORES,
            (Target("streams_per_s", 1.0, against="ds-rust"),),
            takes_seconds=False,
        ),
        Work(
            "create",
            "Create streams, 64 connections",
            # The file-per-stream rivals have an open file for each.
            ("create", "--connections", 64, "--streams", 100_000),
            ("creates_per_s", "p50_ms", "p99_ms", CPU, "server_rss_mb", "failed"),
            STORES,
            (Target("creates_per_s", 20, against="ds-rust"),),
        ),
        Work(
            "idle",
            "10,000 idle streams, then 1,000 idle SSE readers",
            ("idle", "--streams", 10_000, "--readers", 1000),
            (
                "bytes_per_stream",
                "bytes_per_reader",
                "descriptors",
                "server_rss_with_readers_mb",
                "server_cores_idle",
            ),
            STORES,
            takes_seconds=False,
        ),
        Work(
            "bootstrap",
            "Bootstrap: a snapshot and 100,000 messages of 1 KiB",
            ("bootstrap", "--messages", 100_000, "--size", "1KiB"),
            ("mb_per_s", "p50_ms", "server_rss_mb", "failed"),
            OURS,
            (Target("mb_per_s", 300),),
        ),
        Work(
            "snapshots",
            "Append 256 B one by one, without and during 128 MiB snapshots back to back",
            ("snapshots", "--rounds", 5),
            ("p99_ratio", "quiet_p99_ms", "publishing_p99_ms", "publish_mb_per_s", "failed"),
            OURS,
            (Target("p99_ratio", 3, at_most=True),),
        ),
    ]
}
