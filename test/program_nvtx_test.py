# SPDX-License-Identifier: Apache-2.0
"""The NVTX ranges of a whole run, as a tool sees them that NVTX loads in the place of nsys (test/nvtx_injection)."""

import unittest
from pathlib import Path

from program_support import EXECUTABLE, HOST_NAMES, MIXED, ProgramTest, environment

TOOL = Path(EXECUTABLE).resolve().parent / "test" / "nvtx_injection" / "libnvtx_injection.so"


def nested(lines):
    """The log as [name, children] of each outermost range."""
    root = ["", []]
    open_ranges = [root]
    for line in lines:
        action, domain, *text = line.split(" ", 2)
        if domain != "mage_bench":
            continue
        if action == "push":
            new = [text[0], []]
            open_ranges[-1][1].append(new)
            open_ranges.append(new)
        else:
            open_ranges.pop()
    if open_ranges != [root]:
        raise ValueError("pushes and pops do not match")
    return root[1]


@unittest.skipUnless(TOOL.exists(), f"{TOOL} was not built: a build without NVTX has no ranges")
class Nvtx(ProgramTest):
    def ranges(self, *flags):
        """Name and phases of each outermost range, in order."""
        log = self.folder / "ranges.log"
        env = environment(NVTX_INJECTION64_PATH=str(TOOL), MAGE_NVTX_LOG=str(log))
        self.expect(0, f"--benchmark_filter={MIXED}", *flags, env=env)
        outermost = nested(log.read_text().splitlines())
        for _, phases in outermost:
            self.assertTrue(all(children == [] for _, children in phases), "a phase has parts")
        return [(name, [phase for phase, _ in phases]) for name, phases in outermost]

    def test_a_fixture_is_verified_sampled_and_verified_again_under_its_name(self):
        ranges = self.ranges("--mage_rounds=4", "--mage_samples=3", "--benchmark_out=store.json")
        self.assertEqual({name for name, _ in ranges}, set(HOST_NAMES), "an unavailable row has no range")
        for fixture in HOST_NAMES:
            phases = [[phase for phase in inside if phase != "settle"] for name, inside in ranges if name == fixture]
            self.assertEqual((phases[0], phases[-1], len(phases)), (["verify"], ["verify"], 6))
            for inside in phases[1:-1]:  # an audit, then three samples that count, and a check behind one of them
                self.assertEqual(sorted(inside), ["samples"] * 3 + ["verify"] * 2)
                self.assertEqual(inside[:2], ["verify", "samples"])
            for name, inside in ranges:
                if name == fixture and "settle" in inside:
                    self.assertLess(inside.index("settle"), inside.index("samples"), "the clock settles before a round")
        rows = [row["name"] for row in self.load("store.json")["benchmarks"]]
        self.assertEqual([name for name, inside in ranges if "samples" in inside], rows)

    def test_verifying_only_samples_nothing(self):
        ranges = self.ranges("--mage_verify_only")
        self.assertEqual(sorted(ranges), [(name, ["verify"]) for name in HOST_NAMES for _ in range(2)])

    def test_without_a_tool_nothing_is_logged(self):
        log = self.folder / "ranges.log"
        self.measure(env=environment(MAGE_NVTX_LOG=str(log)))
        self.assertFalse(log.exists())


if __name__ == "__main__":
    unittest.main()
