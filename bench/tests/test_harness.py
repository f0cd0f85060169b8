"""What the page says follows from what was measured."""

import sys
import unittest
from types import SimpleNamespace
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from harness.measure import arguments_of, interleaved
from harness.servers import SERVERS
from harness.table import Results, page
from harness.works import WORKS, Target

OPTIONS = SimpleNamespace(rounds=2, seconds=2.0, command="bench/run", date="today", revision="abc")


def line(number, work, server, **figures):
    return {"round": number, "name": work, "server": server, "figures": figures}


def page_of(*lines):
    return page(lines, OPTIONS, "a machine")


class ResultsTest(unittest.TestCase):
    def test_ratios_are_taken_within_a_round(self):
        results = Results(
            [
                line(0, "create", "headwater", creates_per_s=200),
                line(0, "create", "ds-rust", creates_per_s=10),
                # The whole machine is ten times slower.
                line(1, "create", "headwater", creates_per_s=20),
                line(1, "create", "ds-rust", creates_per_s=1),
                # A run without its counterpart says nothing.
                line(2, "create", "headwater", creates_per_s=1),
            ]
        )
        ours, theirs = ("create", "headwater"), ("create", "ds-rust")
        self.assertEqual(results.ratio(ours, theirs, "creates_per_s"), 20)
        self.assertEqual(results.figure("create", "headwater", "creates_per_s"), 20)

    def test_what_was_not_told_is_no_figure(self):
        results = Results([line(0, "create", "node", error="no", creates_per_s=None)])
        self.assertIsNone(results.figure("create", "node", "creates_per_s"))
        self.assertIsNone(results.ratio(("create", "node"), ("create", "node"), "creates_per_s"))
        self.assertEqual(results.errors("create", "node"), ["no"])


class PageTest(unittest.TestCase):
    def test_a_target_is_met_missed_or_not_measured(self):
        ours, theirs = {"creates_per_s": 50}, {"creates_per_s": 10}
        missed = page_of(
            line(0, "create", "headwater", **ours),
            line(0, "create", "ds-rust", **theirs),
        )
        self.assertIn("| 50 | ≥ 20 × ds-rust | 5 | **missed** |", missed)
        met = page_of(
            line(0, "create", "headwater", creates_per_s=200),
            line(0, "create", "ds-rust", **theirs),
        )
        self.assertIn("| 200 | ≥ 20 × ds-rust | 20 | met |", met)
        alone = page_of(line(0, "create", "headwater", **ours))
        self.assertIn("| 50 | ≥ 20 × ds-rust | - | not measured |", alone)

    def test_failures_and_other_work_on_the_machine_are_told(self):
        told = page_of(line(0, "create", "node", error="it fell over", others_cores=1.5))
        self.assertIn("- node: it fell over", told)
        self.assertIn("other processes used up to 1.5 cores", told)

    def test_every_section_has_the_command_that_repeats_it(self):
        told = page_of(line(0, "create", "headwater", creates_per_s=1))
        self.assertIn("`headwater bench create --connections 64 --streams 100000 ", told)


class PlanTest(unittest.TestCase):
    def test_every_round_has_every_server_and_another_goes_first(self):
        plan = list(interleaved([WORKS["create"]], list(SERVERS), OPTIONS))
        names = [name for number, _, name in plan if number == 0]
        self.assertEqual(sorted(names), sorted(WORKS["create"].servers))
        later = [name for number, _, name in plan if number == 1]
        self.assertEqual(later, names[1:] + names[:1])

    def test_targets_compare_with_what_is_measured(self):
        for work in WORKS.values():
            for target in work.targets:
                self.assertIsInstance(target, Target)
                against = target.against
                if against is not None and not against.startswith("work:"):
                    self.assertIn(against, work.servers, work.name)
                if against is not None and against.startswith("work:"):
                    self.assertIn(against.removeprefix("work:"), WORKS)
            self.assertTrue(arguments_of(work, OPTIONS))


if __name__ == "__main__":
    unittest.main()
