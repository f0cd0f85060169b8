"""What else the machine does: figures taken beside other work say little."""

import resource
import sys
import time
from dataclasses import dataclass

TICKS_PER_SECOND = 100
#: A machine that does less than this is quiet.
QUIET_CORES = 0.2
LOOK_SECONDS = 0.5


@dataclass(frozen=True)
class Moment:
    """CPU time used so far: by everything, and by children of this process that have ended."""

    machine: float
    children: float
    clock: float

    @staticmethod
    def now():
        usage = resource.getrusage(resource.RUSAGE_CHILDREN)
        return Moment(_machine_seconds(), usage.ru_utime + usage.ru_stime, time.monotonic())

    def cores_of_others_since(self, earlier):
        """How many cores, on average, were busy with anything but our children."""
        others = (self.machine - earlier.machine) - (self.children - earlier.children)
        return max(0.0, others / max(self.clock - earlier.clock, 1e-3))


def say(text, end=""):
    """Talk goes to stderr."""
    print(text, end=end, file=sys.stderr, flush=True)


def wait_until_quiet(seconds_max):
    """Waits while others use the machine, but not for longer than `seconds_max`."""
    limit = time.monotonic() + seconds_max
    told = False
    while time.monotonic() < limit:
        before = Moment.now()
        time.sleep(LOOK_SECONDS)
        if Moment.now().cores_of_others_since(before) < QUIET_CORES:
            return
        if not told:
            say("waiting for a quiet machine … ")
            told = True


def _machine_seconds():
    """All CPU time but idle and waiting, and including what other virtual machines took from us."""
    with open("/proc/stat", encoding="ascii") as file:
        ticks = [int(field) for field in file.readline().split()[1:9]]
    user, nice, system, _idle, _wait, interrupt, soft, stolen = ticks
    return (user + nice + system + interrupt + soft + stolen) / TICKS_PER_SECOND
