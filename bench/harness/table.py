"""The page of results: what was aimed at and reached, and a table for each work."""

from statistics import median

from .measure import arguments_of
from .servers import SERVERS
from .works import WORKS

UNITS = {
    "appends_per_s": "messages/s",
    "creates_per_s": "streams/s",
    "streams_per_s": "streams/s",
    "mb_per_s": "MB/s",
    "write_mb_per_s": "write MB/s",
    "publish_mb_per_s": "publish MB/s",
    "p50_ms": "p50 ms",
    "p99_ms": "p99 ms",
    "p999_ms": "p99.9 ms",
    "max_ms": "max ms",
    "quiet_p99_ms": "p99 ms without",
    "publishing_p99_ms": "p99 ms during",
    "p99_ratio": "p99 during / without",
    "server_cpu_us_per_op": "server CPU µs/op",
    "server_cpu_us_per_mb": "server CPU µs/MB",
    "server_rss_mb": "server MB",
    "server_rss_with_readers_mb": "server MB",
    "server_written_per_byte": "written/appended",
    "server_cores_idle": "cores while idle",
    "bytes_per_stream": "bytes/stream",
    "bytes_per_reader": "bytes/reader",
    "descriptors": "open files",
}

#: From here on other work on the machine is told beside the figures that it may have changed.
OTHERS_CORES_MAX = 0.3


class Medians:
    """The median of each figure over the rounds, by work and server."""

    def __init__(self, lines):
        self._runs = {}
        for line in lines:
            self._runs.setdefault((line["name"], line["server"]), []).append(line["figures"])

    def servers(self, work):
        """Those that were measured, in the order of the list of servers."""
        return [name for name in SERVERS if (work, name) in self._runs]

    def figure(self, work, server, figure):
        runs = self._runs.get((work, server), [])
        values = [run[figure] for run in runs if isinstance(run.get(figure), (int, float))]
        return median(values) if values else None

    def errors(self, work, server):
        """What went wrong in any round, each told once."""
        runs = self._runs.get((work, server), [])
        told = [run.get("error") or run.get("first_failure") for run in runs]
        return list(dict.fromkeys(text for text in told if text))


def page(lines, options, machine):
    """The whole page as Markdown."""
    medians = Medians(lines)
    measured = [work for work in WORKS.values() if medians.servers(work.name)]
    parts = [_introduction(options, machine), _targets(measured, medians)]
    parts += [_section(work, medians, options) for work in measured]
    return "\n".join(parts)


def _introduction(options, machine):
    servers = "\n".join(f"| {server.name} | {server.what} |" for server in SERVERS.values())
    rounds = f"{options.rounds} round{'s' if options.rounds != 1 else ''}"
    return f"""# Benchmarks

Written by this command, which builds or installs every server, measures all of them on the same work in
turn, and writes this page:

```sh
{options.command}
```

Client and servers share one machine, so that server CPU per operation is often the sharper figure than
throughput. Compare figures within one page only.

- Machine: {machine}
- Date: {options.date}, Headwater {options.revision}
- Medians of {rounds} of {options.seconds:g} s, the servers interleaved, each run on a fresh server and data
  directory. MB are 10^6 bytes. Every acknowledged write of every server but `ceiling` is on disk.

| server | |
| --- | --- |
{servers}

Each command below needs a running server: give its URL with `--url`, and its process id with `--pid` for
the figures of the server.
"""


def _targets(works, medians):
    rows = []
    for work in works:
        for target in work.targets:
            ours = medians.figure(work.name, "headwater", target.figure)
            other = _other(work, target, medians)
            if ours is None or (target.against and not other):
                compared, verdict = None, "not measured"
            else:
                compared = ours / other if target.against else ours
                met = compared <= target.limit if target.at_most else compared >= target.limit
                verdict = "met" if met else "**missed**"
            unit = UNITS.get(target.figure, target.figure)
            row = [work.title, unit, _number(ours), str(target), _number(compared), verdict]
            rows.append("| " + " | ".join(row) + " |")
    head = "| work | figure | Headwater | target | reached | |\n| --- | --- | ---: | ---: | ---: | --- |"
    return "\n".join(["## Targets", "", head, *rows, ""])


def _other(work, target, medians):
    """The figure that a target compares with."""
    if target.against is None:
        return None
    if target.against.startswith("work:"):
        name = target.against.removeprefix("work:")
        return medians.figure(name, "headwater", target.other_figure or target.figure)
    return medians.figure(work.name, target.against, target.figure)


def _section(work, medians, options):
    head = work.figures[0]
    names = medians.servers(work.name)
    rivals = [name for name in ("ds-rust", "ceiling-fsync") if name in names]
    columns = ["server", *(UNITS.get(figure, figure) for figure in work.figures)]
    columns += [f"× {name}" for name in rivals]
    lines = [f"## {work.title}", "", f"`headwater bench {' '.join(arguments_of(work, options))}`", ""]
    lines += ["| " + " | ".join(columns) + " |", "| --- |" + " ---: |" * (len(columns) - 1)]
    notes = []
    for name in names:
        cells = [_number(medians.figure(work.name, name, figure)) for figure in work.figures]
        ours = medians.figure(work.name, name, head)
        for rival in rivals:
            theirs = medians.figure(work.name, rival, head)
            cells.append(f"{ours / theirs:.2f}" if ours is not None and theirs else "-")
        lines.append("| " + " | ".join([name, *cells]) + " |")
        notes += [f"- {name}: {error}" for error in medians.errors(work.name, name)]
    lines.append("")
    others = [medians.figure(work.name, name, "others_cores") for name in names]
    busiest = max((cores for cores in others if cores is not None), default=0)
    if busiest >= OTHERS_CORES_MAX:
        lines += [f"Not a quiet machine: other processes used up to {busiest:.1f} cores meanwhile.", ""]
    if notes:
        lines += ["What failed:", "", *notes, ""]
    return "\n".join(lines)


def _number(value):
    """Three digits that matter, and thousands apart."""
    if value is None:
        return "-"
    if value == 0 or abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:.3g}"
