# SPDX-License-Identifier: Apache-2.0
"""What a run without accidents leaves: the store, its fields, and what the protocol's flags do to it."""

import hashlib
import os
import re
import subprocess
import unittest
from datetime import UTC, datetime

from program_support import EXECUTABLE, HOST, HOST_NAMES, MIXED, QUICK, SOURCE, ProgramTest, environment, load_strict

SHA256 = "^[0-9a-f]{64}$"


class DefaultPath(ProgramTest):
    def test_each_run_has_a_store_of_its_own(self):
        begin = datetime.now(UTC).replace(microsecond=0)
        told = []
        for _ in range(2):
            done = self.expect(0, f"--benchmark_filter={HOST}", *QUICK)
            self.assertEqual(done.stderr, "")
            told += re.findall(r"^store: (\S+) \(4 rows of 2 benchmarks\)$", done.stdout, re.M)
        self.assertEqual(len(set(told)), 2)
        self.assertEqual(self.files(), sorted(told), "nothing else stays, the journals included")
        for path in told:
            stamp, run_id = re.fullmatch(r"results/(\d{8}T\d{6}Z)-([0-9a-f]{8})\.json", path).groups()
            provenance = self.load(path)["mage"]["provenance"]
            self.assertTrue(provenance["run_id"].startswith(run_id))
            self.assertEqual(re.sub("[-:]", "", provenance["started_utc"]), stamp)
            started = datetime.strptime(stamp, "%Y%m%dT%H%M%SZ").replace(tzinfo=UTC)
            self.assertLessEqual(begin, started)
            self.assertLessEqual(started, datetime.now(UTC))

    def test_folders_are_made(self):
        self.measure(store="new/folder/store.json")
        self.assertEqual(self.files(), ["new/folder/store.json"])

    def test_the_environment_names_the_store_and_a_flag_overrides_it(self):
        env = environment(BENCHMARK_OUT="from_environment.json", BENCHMARK_FILTER=HOST)
        self.expect(0, *QUICK, env=env)
        self.assertEqual(self.files(), ["from_environment.json"])
        self.assertEqual(sorted({row["name"] for row in self.load("from_environment.json")["benchmarks"]}), HOST_NAMES)
        before = (self.folder / "from_environment.json").read_bytes()
        self.expect(0, *QUICK, "--benchmark_out=from_flag.json", env=env)
        self.assertEqual(self.files(), ["from_environment.json", "from_flag.json"])
        self.assertEqual((self.folder / "from_environment.json").read_bytes(), before, "the overridden one was written")

    def test_no_other_flag_of_the_library_comes_in_through_the_environment(self):
        for name in ("BENCHMARK_LIST_TESTS", "BENCHMARK_NO_LIST_TESTS", "BENCHMARK_V", "BENCHMARK_CONTEXT"):
            with self.subTest(name=name):
                value = "a=b" if name == "BENCHMARK_CONTEXT" else "1"
                self.measure(store=f"{name}/store.json", env=environment(**{name: value}))
                self.assertEqual([path for path in self.files() if path.startswith(name)], [f"{name}/store.json"])


class Contents(ProgramTest):
    """One run, looked at from all sides."""

    def setUp(self):
        super().setUp()
        self.store = self.measure(
            "--benchmark_context=ticket=4711,who=a=b", select=MIXED, env=environment(OMP_SCHEDULE="static")
        )
        self.mage = self.store["mage"]

    def test_every_round_is_there_and_no_other(self):
        rounds = sorted((row["name"], row["repetition_index"]) for row in self.store["benchmarks"])
        self.assertEqual(rounds, [(name, index) for name in HOST_NAMES for index in (0, 1)])
        for row in self.store["benchmarks"]:
            self.assertEqual(row["repetitions"], 2)
            for key in (
                "samples",
                "mad_us",
                "p10_us",
                "p90_us",
                "p99_us",
                "min_us",
                "gbytes_per_s",
                "tflops",
                "floor_us",
            ):
                self.assertIsInstance(row[key], float, key)
            self.assertNotIn("mage_step", row, "the key that joins a run with its step")

    def test_counters_follow_from_the_samples(self):
        for row in self.store["benchmarks"]:
            self.assertEqual(row["min_us"], min(row["samples_us"]))
            figures = [row[key] for key in ("min_us", "p10_us", "real_time", "p90_us", "p99_us")]
            self.assertEqual([round(us, 6) for us in figures], sorted(round(us, 6) for us in figures))
            self.assertLessEqual(row["p99_us"], max(row["samples_us"]))
            moved = 2 * 4 * 64 * 1024
            self.assertAlmostEqual(row["gbytes_per_s"], moved / row["real_time"] / 1e3, places=6)
            self.assertEqual(row["tflops"], 0, "a copy computes nothing")

    def test_the_text_is_small_and_fit_for_diff(self):
        lines = (self.folder / "store.json").read_text().splitlines()
        rows = [line for line in lines if line.startswith('  {"name":"copy/')]
        self.assertEqual(
            [load_strict(line.rstrip(","))["name"] for line in rows if "samples_us" in line],
            [row["name"] for row in self.store["benchmarks"]],
        )

    def test_unavailable_rows_stand_in_the_tail_with_their_reason(self):
        unavailable = {entry["name"]: entry for entry in self.mage["unavailable"]}
        self.assertIn("copy/v00_float4/64x1024/host", unavailable)
        for entry in unavailable.values():
            self.assertEqual(entry["status"], "unavailable")
            self.assertIn(entry["code"], ("no_cuda_device", "cuda_toolkit_missing"))
            self.assertTrue(entry["reason"].startswith("no CUDA device"), entry["reason"])
        self.assertEqual(self.mage["failed"], [])
        self.assertIsNone(self.mage["device"])
        self.assertEqual(self.mage["device_state"], [])

    def test_the_gates_held_before_and_after(self):
        gates = [(gate["name"], gate["when"], gate["ok"]) for gate in self.mage["gates"]]
        self.assertEqual(
            sorted(gates), sorted((name, when, True) for name in HOST_NAMES for when in ("before", "after"))
        )
        sums = {
            when: {gate["output_checksum"] for gate in self.mage["gates"] if gate["when"] == when}
            for when in ("before", "after")
        }
        self.assertEqual([len(values) for values in sums.values()], [1, 1], "two copies of the same input differ")
        self.assertNotEqual(sums["before"], sums["after"], "the closing gate saw the inputs of the first")
        for gate in self.mage["gates"]:
            self.assertEqual(gate["worst_error_over_bound"], 0)
            self.assertRegex(gate["output_checksum"], "^[0-9a-f]{16}$")

    def test_there_is_a_floor_for_each_round(self):
        floors = [(floor["device"], floor["mode"], floor["problem"], floor["round"]) for floor in self.mage["floors"]]
        self.assertEqual(floors, [("host", "host", "copy/64x1024", index) for index in (0, 1)])
        by_round = {floor["round"]: floor["median_us"] for floor in self.mage["floors"]}
        for row in self.store["benchmarks"]:
            self.assertEqual(row["mage"]["floor_us"], by_round[row["repetition_index"]])
            self.assertEqual("floor_dominated" in row["mage"]["flags"], row["real_time"] < 3 * row["floor_us"])

    def test_provenance_leads_to_program_sources_and_inputs(self):
        provenance = self.mage["provenance"]
        with open(EXECUTABLE, "rb") as program:
            self.assertEqual(provenance["executable_sha256"], hashlib.file_digest(program, "sha256").hexdigest())
        sources = provenance["kernel_sources"]
        self.assertLessEqual({row["mage"]["source"] for row in self.store["benchmarks"]}, set(sources))
        for digest in sources.values():
            self.assertRegex(digest, SHA256)
        listing = "".join(f"{digest}  {path}\n" for path, digest in sorted(sources.items()))
        self.assertEqual(provenance["kernel_sources_sha256"], hashlib.sha256(listing.encode()).hexdigest())
        self.assertEqual(provenance["argv"][0], "mage_bench")
        self.assertIn(f"--benchmark_filter={MIXED}", provenance["argv"])
        self.assertEqual(provenance["environment"]["CUDA_VISIBLE_DEVICES"], "-1")
        self.assertEqual(provenance["environment"]["OMP_SCHEDULE"], "static")
        for key in ("compiler", "cxx_flags", "benchmark_version", "cmake_version", "kernel_release", "glibc_version"):
            self.assertTrue(provenance[key], key)
        (problem,) = self.mage["problems"]
        self.assertEqual((problem["family"], problem["problem"]), ("copy", "64x1024"))
        self.assertEqual(list(problem["inputs_sha256"]), ["x"])
        combined = hashlib.sha256("".join(problem["inputs_sha256"].values()).encode()).hexdigest()
        self.assertEqual({row["mage"]["inputs_sha256"] for row in self.store["benchmarks"]}, {combined})

    def test_the_context_is_benchmarks_with_our_keys(self):
        context = self.store["context"]
        for key in (
            "date",
            "host_name",
            "executable",
            "num_cpus",
            "mhz_per_cpu",
            "caches",
            "load_avg",
            "library_build_type",
        ):
            self.assertIn(key, context)
        self.assertEqual((context["ticket"], context["who"]), ("4711", "a=b"))
        for key in set(context) - {"ticket", "who"}:
            flags = (f"--benchmark_filter={HOST}", f"--benchmark_context={key}=5")
            self.expect(2, *flags, says=f"key '{key}' is the run's own; choose another")

    def test_the_end_is_told(self):
        self.assertIs(self.mage["complete"], True)
        end = self.mage["end"]
        self.assertIs(end["interrupted"], False)
        self.assertLess(0, end["inside_samples_s"])
        self.assertLess(end["inside_samples_s"], end["wall_s"])
        self.assertLessEqual(self.mage["provenance"]["started_utc"], end["finished_utc"])

    def test_the_console_shows_what_the_store_holds(self):
        done = self.expect(0, f"--benchmark_filter={MIXED}", "--benchmark_out=again.json", *QUICK)
        for aggregate in self.load("again.json")["mage"]["aggregates"]:
            median = aggregate["median_us"]
            shown = f"{median:.3f}" if median < 100 else f"{median:.1f}"
            self.assertRegex(done.stdout, rf"(?m)^{aggregate['name']} +{re.escape(shown)} ")
        self.assertIn("unavailable: no CUDA device", done.stdout)


class Documentation(ProgramTest):
    """docs/store.md names every field, flag, status and reason that there is."""

    def setUp(self):
        super().setUp()
        page = (SOURCE / "docs" / "store.md").read_text()
        self.documented = {name for code in re.findall(r"`([^`\n]+)`", page) for name in re.findall(r"\w+", code)}

    def check(self, names, where):
        self.assertTrue(names)
        self.assertEqual(set(names) - self.documented, set(), f"not in docs/store.md, but in {where}")

    def test_fields_of_a_store(self):
        given = {"kernel_sources", "environment", "inputs_sha256", "telling_places"}  # objects whose keys are values

        def keys(value):
            if isinstance(value, list):
                return set().union(*map(keys, value))
            if not isinstance(value, dict):
                return set()
            return set(value).union(*(keys(inner) for key, inner in value.items() if key not in given))

        store = self.measure(select=MIXED)
        self.assertEqual(store["mage"]["protocol"], 3)
        store["context"]["caches"] = []  # the library's own
        self.check(keys(store), "a store")

    def test_flags(self):
        header = (SOURCE / "bench" / "store.hpp").read_text()
        self.check(re.findall(r'(\w+) = "\1";', header), "bench/store.hpp")

    def test_statuses_reasons_modes_and_kinds(self):
        types = (SOURCE / "src" / "core" / "types.cpp").read_text()
        self.check(re.findall(r'case (?:Status|Unavailable|TimingMode)::(\w+): return "\1";', types), "types.cpp")
        code = "".join(path.read_text() for path in sorted((SOURCE / "bench").glob("*.cpp")))
        self.check(re.findall(r'"kind", "(\w+)"', code), "journals")

    def test_series_and_figures_of_the_modes(self):
        code = "".join(path.read_text() for path in sorted((SOURCE / "bench").glob("sampler_*.cpp")))
        self.check(re.findall(r'(?:parts|figures)\["(\w+)"\]', code), "the samplers")


class Protocol(ProgramTest):
    def order(self, *flags, **options):
        """The planned order, and that the rows came in it."""
        store = self.measure(*flags, **options)
        plan = store["mage"]["plan"]
        steps = [
            (plan["fixtures"][fixture], index) for problem in plan["problems"] for fixture, index in problem["steps"]
        ]
        self.assertEqual([(row["name"], row["repetition_index"]) for row in store["benchmarks"]], steps)
        (self.folder / "store.json").unlink()
        return steps

    def test_the_seed_decides_the_order(self):
        select, rounds = "gelu/(reference|cpu_.*)/64x1024/host", "--mage_rounds=6"
        orders = [self.order(f"--mage_seed={seed}", rounds, select=select) for seed in (1, 2, 3)]
        self.assertEqual(orders[0], self.order("--mage_seed=1", rounds, select=select))
        self.assertEqual(orders[0], self.order(rounds, select=select), "1 is the default")
        self.assertEqual(len({tuple(order) for order in orders}), 3)
        for order in orders:
            self.assertEqual(sorted(order), sorted(orders[0]))

    def test_a_dry_run_prints_the_order_that_is_then_run(self):
        flags = ("--mage_rounds=4", "--mage_seed=5")
        steps = self.order(*flags)
        printed = self.expect(0, "--mage_dry_run", f"--benchmark_filter={HOST}", *flags).stdout
        orders = re.findall(r"^    round (\d+) host: (.*)$", printed, re.M)
        told = [(f"copy/{variant}/64x1024/host", int(index)) for index, order in orders for variant in order.split()]
        self.assertEqual(told, steps)

    def test_rounds_and_samples_are_as_asked(self):
        store = self.measure("--mage_rounds=5", "--mage_samples=7", "--mage_round_budget=10")
        self.assertEqual(len(store["benchmarks"]), 10)
        for row in store["benchmarks"]:
            self.assertEqual(row["repetitions"], 5)
            self.assertEqual(len(row["samples_us"]), 7)
            self.assertNotIn("fewer_samples", row["mage"]["flags"])
            self.assertIn(row["mage"]["checked_sample"], range(7))
        options = store["mage"]["options"]
        self.assertEqual((options["rounds"], options["samples"], options["round_budget_s"]), (5, 7, 10))
        self.assertIs(options["balanced"], False)

    def test_a_round_over_its_budget_takes_fewer_samples_and_says_so(self):
        store = self.measure("--mage_samples=100000", "--mage_round_budget=0.0001")
        for row in store["benchmarks"] + store["mage"]["aggregates"]:
            self.assertIn("fewer_samples", row.get("mage", row)["flags"])
        for row in store["benchmarks"]:
            self.assertEqual(row["mage"]["samples_asked"], 100000)
            self.assertLess(len(row["samples_us"]), 10000)

    def test_a_budget_below_one_sample_still_takes_one(self):
        store = self.measure("--mage_round_budget=0.0001", select="gelu/reference/64x1024/host")
        for row in store["benchmarks"]:
            self.assertEqual(len(row["samples_us"]), 1)
            self.assertEqual(row["mage"]["checked_sample"], 0)
            self.assertIn("fewer_samples", row["mage"]["flags"])

    def test_a_problem_is_added(self):
        store = self.measure("--mage_problem=copy/10x12", "--mage_problem=gelu/3x5-o1", select="/(10x12|3x5-o1)/host$")
        names = {row["name"] for row in store["benchmarks"]}
        self.assertLess({"copy/reference/10x12/host", "gelu/reference/3x5-o1/host"}, names)
        self.assertEqual({name.split("/")[2] for name in names}, {"10x12", "3x5-o1"})
        work = next(row["mage"]["work"] for row in store["benchmarks"] if row["name"].startswith("copy"))
        self.assertEqual(work, {"flops": 0, "bytes_read": 480, "bytes_written": 480})

    def test_inputs_are_the_same_in_every_run(self):
        digests = []
        for name in ("a.json", "b.json"):
            digests.append(self.measure(store=name)["mage"]["problems"][0]["inputs_sha256"])
        self.assertEqual(digests[0], digests[1])

    def test_arguments_that_are_not_utf8_are_measured_or_refused(self):
        for flag in (b"--benchmark_context=who=\xff", b"--benchmark_filter=copy/reference/64x1024/host|\xff"):
            with self.subTest(flag=flag):
                select = () if b"filter" in flag else (f"--benchmark_filter={HOST}",)
                done = self.bench_bytes(flag, *select, "--benchmark_out=bytes.json", *QUICK)
                self.assertIn(done.returncode, (0, 2), done.stderr)
                if done.returncode == 0:
                    self.load("bytes.json")
                    (self.folder / "bytes.json").unlink()
                self.assertEqual(self.files(), [])

    def bench_bytes(self, *flags):
        command = [os.fsencode(EXECUTABLE), *flags]
        return subprocess.run(command, cwd=self.folder, env=environment(), capture_output=True, timeout=120)


if __name__ == "__main__":
    unittest.main()
