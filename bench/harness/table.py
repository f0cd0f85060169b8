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


class Results:
    """What was measured: medians of figures over the rounds, and of ratios within a round."""

    def __init__(self, lines):
        self._runs = {}
        for line in lines:
            runs = self._runs.setdefault((line["name"], line["server"]), {})
            runs[line["round"]] = line["figures"]

    def servers(self, work):
        """Those that were measured, in the order of the list of servers."""
        return [name for name in SERVERS if (work, name) in self._runs]

    def figure(self, work, server, figure):
        """The median, or None where the figure was never told."""
        values = self._values(work, server, figure).values()
        return median(values) if values else None

    def ratio(self, ours, theirs, figure):
        """The median of the ratios of two runs of one round, each a (work, server).

        What slows a whole round down, slows both runs and leaves their ratio alone.
        """
        own, other = self._values(*ours, figure), self._values(*theirs, figure)
        ratios = [own[number] / other[number] for number in own if other.get(number)]
        return median(ratios) if ratios else None

    def errors(self, work, server):
        """What went wrong in any round, each told once."""
        runs = self._runs.get((work, server), {}).values()
        told = [run.get("error") or run.get("first_failure") for run in runs]
        return list(dict.fromkeys(text for text in told if text))

    def _values(self, work, server, figure):
        runs = self._runs.get((work, server), {})
        told = {number: run.get(figure) for number, run in runs.items()}
        return {number: value for number, value in told.items() if isinstance(value, (int, float))}


def page(lines, options, machine):
    """The whole page as Markdown."""
    results = Results(lines)
    measured = [work for work in WORKS.values() if results.servers(work.name)]
    parts = [_introduction(options, machine), _targets(measured, results)]
    parts += [_section(work, results, options) for work in measured]
    return "\n".join(parts)


def _introduction(options, machine):
    servers = "\n".join(f"| {server.name} | {server.what} |" for server in SERVERS.values())
    rounds = f"{options.rounds} round{'s' if options.rounds != 1 else ''}"
    return f"""# Benchmarks

Written by this command, which builds or installs every server, measures all of them on the same
work in turn, and writes this page:

```sh
{options.command}
```

Client and servers share one machine, so that server CPU per operation is often the sharper figure
than throughput. Compare figures within one page only.

- Machine: {machine}
- Date: {options.date}, Headwater {options.revision}
- {rounds} of {options.seconds:g} s, the servers interleaved, each run on a fresh server and data
  directory. Figures are medians of the rounds, ratios are medians of the ratios within a round.
- MB are 10^6 bytes. Every acknowledged write of every server but `ceiling` is on disk.

| server | |
| --- | --- |
{servers}

Each command below needs a running server: give its URL with `--url`, and its process id with
`--pid` for the figures of the server.
"""


def _targets(works, results):
    head = "| work | figure | Headwater | target | reached | |"
    lines = ["## Targets", "", head, "| --- | --- | ---: | ---: | ---: | --- |"]
    for work in works:
        for target in work.targets:
            unit = UNITS.get(target.figure, target.figure)
            ours = _number(results.figure(work.name, "headwater", target.figure))
            reached = _reached(work, target, results)
            verdict = _verdict(target, reached)
            lines.append(_row(work.title, unit, ours, target, _number(reached), verdict))
    return "\n".join([*lines, ""])


def _reached(work, target, results):
    """What is compared with the target's limit: the figure, or a ratio."""
    ours = (work.name, "headwater")
    if target.against is None:
        return results.figure(*ours, target.figure)
    if target.against.startswith("work:"):
        theirs = (target.against.removeprefix("work:"), "headwater")
    else:
        theirs = (work.name, target.against)
    return results.ratio(ours, theirs, target.figure)


def _verdict(target, reached):
    if reached is None:
        return "not measured"
    met = reached <= target.limit if target.at_most else reached >= target.limit
    return "met" if met else "**missed**"


def _section(work, results, options):
    names = results.servers(work.name)
    rivals = [name for name in ("ds-rust", "ceiling-fsync") if name in names]
    columns = ["server", *(UNITS.get(figure, figure) for figure in work.figures)]
    columns += [f"× {name}" for name in rivals]
    command = f"`headwater bench {' '.join(arguments_of(work, options))}`"
    lines = [f"## {work.title}", "", command, "", _row(*columns)]
    lines.append("| --- |" + " ---: |" * (len(columns) - 1))
    for name in names:
        cells = [results.figure(work.name, name, figure) for figure in work.figures]
        for rival in rivals:
            ours, theirs = (work.name, name), (work.name, rival)
            cells.append(results.ratio(ours, theirs, work.figures[0]))
        lines.append(_row(name, *map(_number, cells)))
    return "\n".join([*lines, "", *_notes(work, names, results)])


def _notes(work, names, results):
    """What a reader of the table has to know besides."""
    others = [results.figure(work.name, name, "others_cores") or 0 for name in names]
    notes = []
    if max(others) >= OTHERS_CORES_MAX:
        busiest = f"up to {max(others):.1f} cores"
        notes += [f"Not a quiet machine: other processes used {busiest} meanwhile.", ""]
    failures = [
        f"- {name}: {error}" for name in names for error in results.errors(work.name, name)
    ]
    return notes + (["What failed:", "", *failures, ""] if failures else [])


def _row(*cells):
    return f"| {' | '.join(map(str, cells))} |"


def _number(value):
    """Three digits that matter, and thousands apart."""
    if value is None:
        return "-"
    if value == 0 or abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:.3g}"
