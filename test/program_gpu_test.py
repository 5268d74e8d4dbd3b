# SPDX-License-Identifier: Apache-2.0
"""A run on a GPU, in all modes: what its rows, the device's part of the store and its NVTX ranges hold."""

import ctypes
import os
import unittest

from program_nvtx_test import TOOL, nested
from program_support import SOURCE, ProgramTest, environment, load_strict

MODES = ("event", "event_cold", "batch", "graph", "host", "kernel")
SERIES = {
    "event": set(),
    "event_cold": set(),
    "batch": {"span_n_us", "span_2n_us", "enqueue_2n_us", "intercept_us"},
    "graph": {"replay_latency_us", "span_k_us", "launch_us"},
    "host": {"submit_us"},
    "kernel": {"kernel_0_us", "span_us", "gap_us"},
}


def gpus():
    """How many the driver shows, asked without the program."""
    try:
        driver = ctypes.CDLL("libcuda.so.1")
    except OSError:
        return 0
    count = ctypes.c_int(0)
    if driver.cuInit(0) != 0 or driver.cuDeviceGetCount(ctypes.byref(count)) != 0:
        return 0
    return count.value


def visible(**variables):
    env = environment(**variables)
    del env["CUDA_VISIBLE_DEVICES"]
    if "CUDA_VISIBLE_DEVICES" in os.environ:
        env["CUDA_VISIBLE_DEVICES"] = os.environ["CUDA_VISIBLE_DEVICES"]
    return env


@unittest.skipUnless(gpus(), "no GPU here")
class Gpu(ProgramTest):
    def setUp(self):
        super().setUp()
        listed = self.expect(0, "--mage_list=json", "--benchmark_filter=copy/v00_float4/64x1024/event$").stdout
        if load_strict(listed)[0]["skipped"] is not None:
            self.skipTest("a build without CUDA")
        self.log = self.folder / "ranges.log"
        env = visible(NVTX_INJECTION64_PATH=str(TOOL), MAGE_NVTX_LOG=str(self.log)) if TOOL.exists() else visible()
        flags = ("--mage_require_gpu", "--mage_rounds=2", "--mage_samples=5", "--mage_round_budget=1")
        self.store = self.measure(*flags, select="copy/v00_float4/64x1024/", env=env)
        self.unavailable = {entry["name"].split("/")[3]: entry["code"] for entry in self.store["mage"]["unavailable"]}

    def test_a_run(self):
        self.check_rows()
        self.check_device()
        if TOOL.exists():
            self.check_ranges()

    def check_rows(self):
        for mode in MODES:
            rows = [row for row in self.store["benchmarks"] if row["mage"]["mode"] == mode]
            if mode in self.unavailable:
                self.assertIn(self.unavailable[mode], ("cupti_missing", "cupti_busy"))
                self.assertEqual(rows, [])
                continue
            self.assertEqual([row["repetition_index"] for row in rows], [0, 1], mode)
            for row in rows:
                block = row["mage"]
                self.assertEqual(len(row["samples_us"]), 5)
                self.assertEqual(set(block["parts_us"]), SERIES[mode])
                self.assertGreater(block["sm_mhz_before"], 0)
                self.assertGreater(block["sm_mhz_after"], 0)
                self.assertEqual(block["kernels"] != [], mode == "kernel")
                self.assertEqual(block["stream"], block["round"], "two rounds, two streams")
        gates = {(gate["name"].split("/")[3], gate["when"]) for gate in self.store["mage"]["gates"] if gate["ok"]}
        measured = [mode for mode in MODES if mode not in self.unavailable]
        self.assertEqual(gates, {(mode, when) for mode in measured for when in ("before", "after")})
        self.assertEqual({floor["device"] for floor in self.store["mage"]["floors"]}, {"cuda"})

    def check_device(self):
        device = self.store["mage"]["device"]
        self.assertRegex(device["uuid"], "^(GPU|MIG)-[0-9a-f-]{36}$")
        self.assertRegex(device["compute_capability"], r"^\d+\.\d$")
        page = (SOURCE / "docs" / "store.md").read_text()
        for field in (*device, *device["nvml"]):
            self.assertIn(f"`{field}`", page)
        if "unavailable" not in device["nvml"]:
            self.assertEqual(device["nvml"]["uuid"], device["uuid"])
            self.assertTrue(self.store["mage"]["device_state"])
            for reading in self.store["mage"]["device_state"]:
                for field in reading:
                    self.assertIn(f"`{field}`", page)

    def check_ranges(self):
        outermost = nested(self.log.read_text().splitlines())
        rounds = [(name, [phase for phase, _ in phases]) for name, phases in outermost]
        rounds = [(name, phases) for name, phases in rounds if "samples" in phases]
        self.assertEqual([name for name, _ in rounds], [row["name"] for row in self.store["benchmarks"]])
        for name, phases in rounds:
            warm_up = [] if name.endswith("/event_cold") else ["warm_up"]
            check = phases.index("verify")
            before, behind = phases[:check], phases[check + 1 :]
            self.assertEqual(before[: 1 + len(warm_up)], ["settle", *warm_up], name)
            self.assertEqual(behind[: len(warm_up)], warm_up, name)
            self.assertEqual(phases.count("samples"), 5, name)
            self.assertEqual(len(phases), 5 + 2 + 2 * len(warm_up), name)

    def test_both_kinds_of_fixtures_share_a_store(self):
        store = self.measure("--mage_overwrite", "--mage_modes=host", select="copy/.*/64x1024/host", env=visible())
        devices = {"host" if row["mage"]["sm_mhz_before"] is None else "cuda" for row in store["benchmarks"]}
        self.assertEqual(devices, {"host", "cuda"})

    def test_hiding_the_gpu_makes_the_rows_unavailable(self):
        listed = self.expect(0, "--mage_list=json", "--benchmark_filter=copy/v00_float4/64x1024/", env=visible()).stdout
        names = {entry["name"] for entry in load_strict(listed)}
        store = self.measure("--mage_overwrite", select="copy/(v00_float4|reference)/64x1024/")
        self.assertEqual({entry["name"] for entry in store["mage"]["unavailable"]}, names)
        self.assertEqual({entry["code"] for entry in store["mage"]["unavailable"]}, {"no_cuda_device"})


if __name__ == "__main__":
    unittest.main()
