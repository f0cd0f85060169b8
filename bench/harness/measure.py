"""One measurement after the other, interleaved, and every result as a line of JSON."""

import functools
import json
import os
import subprocess

from .quiet import Moment, say, wait_until_quiet
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
            command = [str(installation.headwater), "bench", *arguments_of(work, options)]
            command += ["--url", url, "--pid", str(process.pid), "--keep", "--json"]
            figures = _figures(command, options.seconds if work.takes_seconds else 0)
            if process.poll() is not None:
                return {"error": f"the server ended with {process.returncode}"}
            return figures
    except NotThere as error:
        return {"error": str(error)}


def _figures(command, seconds):
    plain = {name: value for name, value in os.environ.items() if not name.startswith("STREAM_")}
    # Works that alternate phases measure ten times.
    limit = seconds * 12 + OVERHEAD_SECONDS_MAX
    run = functools.partial(subprocess.run, capture_output=True, text=True, check=False)
    try:
        done = run(command, timeout=limit, env=plain)
    except subprocess.TimeoutExpired:
        return {"error": f"no result within {limit:g} s"}
    if done.returncode != 0:
        told = done.stderr.strip().splitlines() or [f"exit code {done.returncode}"]
        return {"error": told[0].removeprefix("error: ")}
    return json.loads(done.stdout)


def measure_all(installation, works, servers, options, folder, results):
    """Measures everything, writes each result to the file `results`, and returns them all."""
    plan = list(interleaved(works, servers, options))
    lines = []
    for step, (number, work, name) in enumerate(plan, 1):
        say(f"[{step}/{len(plan)}] round {number + 1}, {work.name}, {name} … ")
        wait_until_quiet(options.wait)
        before = Moment.now()
        figures = measure(installation, work, name, options, folder)
        figures["others_cores"] = round(Moment.now().cores_of_others_since(before), 2)
        head = work.figures[0]
        say(figures.get("error") or f"{head} {figures.get(head)}", end="\n")
        line = {"round": number, "name": work.name, "server": name, "figures": figures}
        lines.append(line)
        results.write(json.dumps(line) + "\n")
        results.flush()
    return lines
