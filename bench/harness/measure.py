"""One measurement after the other, interleaved, and every result as a line of JSON."""

import json
import os
import subprocess
import sys

from .quiet import Moment, wait_until_quiet
from .servers import NotThere, running

#: Beyond the measured seconds: creating streams, filling them, waiting for what is late.
OVERHEAD_SECONDS_MAX = 240


def arguments_of(work, options):
    """What follows `headwater bench`."""
    arguments = [str(argument) for argument in work.arguments]
    if work.takes_seconds:
        arguments += ["--seconds", f"{options.seconds:g}"]
    if work.takes_warm_up:
        arguments += ["--warm-up", f"{min(1.0, options.seconds / 2):g}"]
    return arguments


def interleaved(works, servers, options):
    """Every (round, work, server), so that slow changes of the machine hit all servers alike.

    Who goes first changes from round to round.
    """
    for number in range(options.rounds):
        for work in works:
            names = [name for name in work.servers if name in servers]
            turn = number % len(names) if names else 0
            for name in names[turn:] + names[:turn]:
                yield number, work, name


def measure(installation, work, name, options, folder):
    """The figures of one run, or `{"error": why}`."""
    try:
        with running(installation, name, folder) as (process, url):
            # Its data directory goes with the server: nothing needs to be deleted over HTTP.
            command = [str(installation.headwater), "bench", *arguments_of(work, options), "--url", url]
            command += ["--pid", str(process.pid), "--keep", "--json"]
            figures = _figures(command, options.seconds if work.takes_seconds else 0)
            if process.poll() is not None:
                return {"error": f"the server ended with {process.returncode}"}
            return figures
    except NotThere as error:
        return {"error": str(error)}


def _figures(command, seconds):
    environment = {name: value for name, value in os.environ.items() if not name.startswith("STREAM_")}
    limit = seconds * 12 + OVERHEAD_SECONDS_MAX
    try:
        run = subprocess.run(command, capture_output=True, text=True, timeout=limit, env=environment, check=False)
    except subprocess.TimeoutExpired:
        return {"error": f"no result within {limit:g} s"}
    if run.returncode != 0:
        lines = run.stderr.strip().splitlines()
        return {"error": lines[0] if lines else f"exit code {run.returncode}"}
    return json.loads(run.stdout)


def measure_all(installation, works, servers, options, folder, results):
    """Measures everything, writes each result to the file `results`, and returns them all."""
    plan = list(interleaved(works, servers, options))
    lines = []
    for step, (number, work, name) in enumerate(plan, 1):
        print(f"[{step}/{len(plan)}] round {number + 1}, {work.name}, {name} … ", end="", file=sys.stderr, flush=True)
        wait_until_quiet(options.wait)
        before = Moment.now()
        figures = measure(installation, work, name, options, folder)
        figures["others_cores"] = round(Moment.now().cores_of_others_since(before), 2)
        head = work.figures[0]
        print(figures.get("error") or f"{head} {figures.get(head)}", file=sys.stderr)
        line = {"round": number, "name": work.name, "server": name, "figures": figures}
        lines.append(line)
        results.write(json.dumps(line) + "\n")
        results.flush()
    return lines
