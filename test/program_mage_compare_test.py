# SPDX-License-Identifier: Apache-2.0
"""What mage_compare reports: words, order, pairing, selection, ranking and decomposition.

The reports of two made-up stores are committed in test/data/compare. After a change that is meant, write them anew and
read the difference:

    cd build/cpu && MAGE_WRITE_GOLDENS=../../test/data/compare MAGE_BENCH_EXECUTABLE=$PWD/mage_bench \\
      python3 -B ../../test/program_mage_compare_test.py
"""

import os
import re
import unittest
from pathlib import Path

from compare_support import COMPARE, DEVICE, CompareTest, absence, all_words, benchmark, later_run, store, write
from program_support import SOURCE, load_strict

GOLDENS = SOURCE / "test" / "data" / "compare"
WORDS = ["slower", "inconclusive", "not comparable", "faster", "equivalent"]  # in the order of a table


def rounded(text):
    """Figures to seven digits: the last ones depend on the mathematics library."""
    return re.sub(r"-?\d+\.\d+(e[-+]\d+)?", lambda found: f"{float(found[0]):.7g}", text)


def with_medians(name, medians, rounds=5, **more):
    """A benchmark with just these round medians, by round; benchmark() starts its spread elsewhere for each name."""
    start = sum(name.encode()) % rounds
    spread = [medians.get((k - start) % rounds, 1.0) for k in range(rounds)]
    rows, aggregate = benchmark(name, 1.0, spread=spread, rounds=sorted(medians), **more)
    for row in rows:
        row["repetitions"] = row["mage"]["rounds"] = rounds
    return rows, {**aggregate, "rounds_planned": rounds}


class Goldens(CompareTest):
    REPORTS = {
        "words.txt": (1, "run.json"),
        "words.md": (1, "run.json", "--format=markdown"),
        "words.json": (1, "run.json", "--format=json"),
        "words.csv": (1, "run.json", "--format=csv"),
        "two_stores.txt": (1, "run.json", "new.json"),
        "two_stores.json": (1, "run.json", "new.json", "--format=json"),
        "ranking.txt": (0, "run.json", "--ranking"),
        "decomposition.txt": (0, "run.json", "--decompose"),
        "decomposition.csv": (0, "run.json", "--decompose", "--format=csv"),
    }

    def test_reports_are_as_committed(self):
        self.maxDiff = None
        written = os.environ.get("MAGE_WRITE_GOLDENS", "")
        for name, (code, *flags) in self.REPORTS.items():
            with self.subTest(name):
                text = self.compare(code, *flags).stdout
                if Path(written).is_dir() and written:
                    (Path(written) / name).write_text(text)
                golden = (GOLDENS / name).read_text()
                for_programs = name.endswith((".json", ".csv"))
                self.assertEqual(*map(rounded, (text, golden)) if for_programs else (text, golden))

    def test_every_golden_is_of_a_report(self):
        self.assertEqual({path.name for path in GOLDENS.iterdir()}, set(self.REPORTS))


class Words(CompareTest):
    def test_each_word_stands_where_the_times_say_so(self):
        words = {row["name"]: row["word"] for row in self.rows(1, "run.json", "--mode=^event$")}
        self.assertEqual(
            words,
            {
                "twice/v01_fast/64x8/event": "faster",
                "twice/v02_slow/64x8/event": "slower",
                "twice/v03_same/64x8/event": "equivalent",
                "twice/v04_slower_still/64x8/event": "slower",
                "twice/v05_noisy/64x8/event": "inconclusive",
                "twice/v06_shaky/64x8/event": "inconclusive",
                "twice/v07_late/64x8/event": "faster",
            },
        )

    def test_regressions_stand_first_and_the_largest_before_all(self):
        rows = self.rows(1, "run.json")
        places = [WORDS.index(row["word"]) for row in rows]
        self.assertEqual(places, sorted(places))
        self.assertEqual(set(places), set(range(len(WORDS))))
        self.assertEqual([row["candidate"] for row in rows[:2]], ["v04_slower_still", "v02_slow"])

    def test_figures_are_those_of_the_rounds(self):
        run = all_words()
        times = {}
        for row in run["benchmarks"]:
            times.setdefault(row["name"], {})[row["mage"]["round"]] = row["real_time"]
        row = next(row for row in self.rows(1, "run.json") if row["name"] == "twice/v07_late/64x8/event")
        pairs = [(times["twice/v00_plain/64x8/event"][k], times[row["name"]][k]) for k in (1, 2, 4)]
        self.assertEqual(row["rounds"], 3)
        self.assertEqual(row["pairing"], "paired by round")
        self.assertEqual(row["baseline_us"], sorted(old for old, _ in pairs)[1])
        self.assertEqual(row["candidate_us"], sorted(new for _, new in pairs)[1])
        self.assertTrue(min(b / a for a, b in pairs) <= row["ratio"] <= max(b / a for a, b in pairs))
        self.assertTrue(row["ratio_low"] < row["ratio"] < row["ratio_high"])
        self.assertIn("missing_rounds", row["candidate_flags"])

    def test_each_kind_has_a_baseline_of_its_own(self):
        baselines = {row["candidate"]: row["baseline"] for row in self.rows(0, "run.json", "--mode=host")}
        self.assertEqual(baselines, {"v01_fast": "v00_plain"}, "the reference is slow by design")
        rows = self.rows(1, "run.json", "--mode=host", "--baseline=cpu_v00_loop", "--variant=reference")
        self.assertEqual([(row["candidate"], row["word"]) for row in rows], [("reference", "slower")])
        write(self.folder, "s.json", store([benchmark(f"f/{v}/p/host", 5.0) for v in ("reference", "cpu_v01_simd")]))
        self.assertEqual(self.rows(0, "s.json")[0]["baseline"], "reference")

    def test_a_group_without_its_baseline_is_shown_with_the_reason(self):
        rows = {row["name"]: row for row in self.rows(1, "run.json")}
        failed = rows["twice/v01_fast/64x8/kernel"]
        self.assertEqual((failed["word"], failed["baseline"], failed["ratio"]), ("not comparable", None, None))
        self.assertEqual(failed["notes"], ['no baseline: v00_plain is wrong: y[3] is nan, "poison"'])
        self.assertEqual(failed["candidate_us"], 5.5)
        none = rows["twice/v02_slow/1x1/event_cold"]
        self.assertEqual(none["notes"], ["no baseline: no gpu variant of this problem and mode matches v00_*"])

    def test_baseline_by_name_and_by_expression(self):
        for text in ("v01_fast", "^v01", "fast$"):
            rows = {row["candidate"]: row for row in self.rows(1, "run.json", f"--baseline={text}", "--mode=^event$")}
            self.assertEqual(rows["v00_plain"]["baseline"], "v01_fast")
            self.assertNotIn("v01_fast", rows)
        rows = self.rows(3, "run.json", "--baseline=slow", "--mode=^event$")
        self.assertEqual({row["word"] for row in rows}, {"not comparable"})
        self.assertIn("v02_slow and v04_slower_still both match --baseline=slow", rows[0]["notes"][0])
        write(
            self.folder,
            "s.json",
            store([benchmark(f"f/{v}/p/event", 5.0) for v in ("v00", "v01_a2")] + [benchmark("f/v01_a/p/batch", 5.0)]),
        )
        rows = self.rows(3, "s.json", "--baseline=v01_a")  # a name in the store: v01_a2 is no substitute
        self.assertEqual({row["word"] for row in rows}, {"not comparable"})

    def test_alpha_and_minimum_effect_change_words(self):
        def word(*flags):
            rows = self.rows(*flags[:1], "run.json", "--mode=^event$", "--variant=v02|v04", *flags[1:])
            return {row["candidate"]: row["word"] for row in rows}

        self.assertEqual(word(1, "--min_effect=0.4"), {"v02_slow": "equivalent", "v04_slower_still": "slower"})
        for flag in ("--alpha=1e-12", "--claim_alpha=1e-12"):
            self.assertEqual(set(word(0, flag).values()), {"inconclusive"})

    def test_an_unfinished_run_says_so(self):
        run = all_words()
        run["mage"]["complete"] = False
        write(self.folder, "cut.json", run)
        self.assertIn("INCOMPLETE", self.compare(1, "cut.json").stdout)
        self.assertFalse(load_strict(self.compare(1, "cut.json", "--format=json").stdout)["stores"][0]["complete"])


class TwoStores(CompareTest):
    def test_words_pairing_and_what_only_one_has(self):
        report = load_strict(self.compare(1, "run.json", "new.json", "--mode=^event$", "--format=json").stdout)
        words = {row["candidate"]: row["word"] for row in report["rows"]}
        self.assertEqual(
            words,
            {"v00_plain": "equivalent", "v01_fast": "slower", "v02_slow": "faster", "v03_same": "not comparable"},
        )
        self.assertEqual({row["pairing"] for row in report["rows"]}, {"unpaired", None})
        self.assertIn("inputs", next(row for row in report["rows"] if row["candidate"] == "v03_same")["notes"][0])
        only = {entry["name"].split("/")[1]: entry for entry in report["only_in_one"]}
        self.assertEqual(set(only), {"v04_slower_still", "v05_noisy", "v06_shaky", "v07_late", "v08_new"})
        self.assertEqual(only["v05_noisy"]["store"], "run.json")
        self.assertEqual(only["v05_noisy"]["other_store_says"], "failed: out of memory")
        self.assertEqual(only["v08_new"]["store"], "new.json")
        self.assertIn("unpaired", self.compare(1, "run.json", "new.json").stdout)

    def test_what_became_wrong_or_failed_is_a_regression(self):
        times = [benchmark(f"f/{variant}/p/event", 5.0) for variant in ("v00", "v01")]
        old_bad = absence("f/v02/p/event", "wrong", "y[1] is 3")
        write(self.folder, "old.json", store(times, failed=[old_bad]))
        for status in ("wrong", "failed"):
            for kept in (times[:1], []):  # with a row, and without any
                with self.subTest(status=status, rows=len(kept)):
                    bad = [absence("f/v01/p/event", status, "why"), old_bad]
                    write(self.folder, "later.json", store(kept, failed=bad, run_id="1" * 32))
                    text = self.compare(1, "old.json", "later.json").stdout
                    line = f"REGRESSION: f/v01/p/event has a time in old.json, and in later.json it is {status}: why"
                    self.assertIn(line, text)
                    for path in ("old.json", "later.json"):
                        self.assertIn(f"without a time in {path}: f/v02/p/event: wrong: y[1] is 3", text)
                    self.assertEqual(text.count("REGRESSION"), 1)
                    report = load_strict(self.compare(1, "old.json", "later.json", "--format=json").stdout)
                    listed = [(e["name"], e["store"], e["regression"]) for e in report["without_time"]]
                    expected = [
                        ("f/v02/p/event", "old.json", False),
                        ("f/v01/p/event", "later.json", True),
                        ("f/v02/p/event", "later.json", False),
                    ]
                    self.assertEqual(listed, expected)
                    done = self.bench("old.json", "later.json", "--no_fail", executable=COMPARE)
                    self.assertEqual(done.returncode, 0 if kept else 3, done.stderr)
                    self.assertIn(line, done.stdout)
                    if kept:
                        self.compare(0, "old.json", "later.json", "--variant=v00|v02")
        # What this machine cannot do, and what was mended, is none.
        away = [absence("f/v01/p/event", "unavailable", "no", "arch")]
        write(self.folder, "later.json", store(times[:1], unavailable=away, run_id="1" * 32))
        self.compare(0, "old.json", "later.json")
        write(self.folder, "mended.json", store([*times, benchmark("f/v02/p/event", 5.0)], run_id="1" * 32))
        self.compare(0, "old.json", "mended.json")

    def test_ranks_are_noted_only_where_these_rounds_could_support_the_claim(self):
        def notes(*flags):
            rows = self.rows(1, *flags)
            self.assertEqual([row["word"] for row in rows], ["slower"])
            return [note for note in rows[0]["notes"] if note.startswith("ranks do not agree")]

        # One of five pairs lies far on the other side. The smallest p of five is 0.0625.
        spread = (1.1, 1.11, 1.12, 1.105, 0.88)
        flat = benchmark("f/v00_a/p/event", 5.0, spread=(1.0,) * 5)
        pairs = [flat, benchmark("f/v01_a/p/event", 5.0, spread=spread)]
        write(self.folder, "pairs.json", store(pairs))
        self.assertEqual(len(notes("pairs.json", "--alpha=0.5", "--claim_alpha=0.5")), 1)
        # All of one store's rounds lie above all of the other's: no p is smaller, so none below 0.01 could be had.
        for old, new, alpha, smallest in ((4, 4, 0.01, 2 / 70), (3, 4, 0.05, 2 / 35), (3, 5, 0.02, 2 / 56)):
            with self.subTest(old=old, new=new):
                write(self.folder, "old.json", store([benchmark("f/v00/p/event", 5.0, rounds=range(old))]))
                later = store([benchmark("f/v00/p/event", 9.0, rounds=range(new))], run_id="1" * 32)
                write(self.folder, "later.json", later)
                flags = ("old.json", "later.json", f"--alpha={alpha}", f"--claim_alpha={alpha}")
                self.assertAlmostEqual(self.rows(1, *flags)[0]["wilcoxon_p_value"], smallest)
                self.assertEqual(notes(*flags), [])
        # Three and five rounds could have p 0.036; here one of the five lies below the three.
        write(self.folder, "old.json", store([benchmark("f/v00/p/event", 5.0, rounds=range(3))]))
        lower = (1.3, 1.31, 1.32, 1.305, 0.9)
        later = store([benchmark("f/v00/p/event", 5.0, spread=lower)], run_id="1" * 32)
        write(self.folder, "later.json", later)
        self.assertEqual(len(notes("old.json", "later.json", "--alpha=0.1", "--claim_alpha=0.1")), 1)

    def test_another_machine_is_refused_or_labels_every_row(self):
        for change in (
            {"name": "NVIDIA Another"},
            {"uuid": "GPU-2"},
            {"cuda_runtime": "12.0"},
            {"nvml": {"driver_version": "570.1"}},
        ):
            with self.subTest(change):
                write(self.folder, "other.json", later_run(device={**DEVICE, **change}))
                done = self.compare(2, "run.json", "other.json", says="--allow_different_machines")
                self.assertIn("are of different machines", done.stderr)
                self.assertEqual(done.stdout, "")
                allowed = ("run.json", "other.json", "--allow_different_machines")
                rows = self.rows(1, *allowed)
                self.assertEqual({row["notes"][0] for row in rows}, {"different machines"})
                self.assertIn("DIFFERENT MACHINES", self.compare(1, *allowed).stdout)
        write(self.folder, "host.json", later_run(device=None))
        self.compare(2, "run.json", "host.json", says="GPU: NVIDIA Made-up, then none")

    def test_another_protocol_labels_every_row(self):
        later = later_run()
        later["mage"]["protocol"] = 2
        write(self.folder, "later.json", later)
        for pair, order in ((("run.json", "later.json"), "1, then 2"), (("later.json", "run.json"), "2, then 1")):
            rows = self.rows(1, *pair)
            self.assertEqual({row["notes"][0] for row in rows}, {"different protocols"})
            self.assertIn(f"DIFFERENT PROTOCOLS: {order}", self.compare(1, *pair).stdout)
        for wrong in (0, "2", 1.5):
            later["mage"]["protocol"] = wrong
            write(self.folder, "later.json", later)
            self.compare(2, "run.json", "later.json", says="protocol")

    def test_nothing_in_common(self):
        write(self.folder, "s.json", store([benchmark("other/v00/p/event", 5.0)], run_id="1" * 32))
        done = self.compare(3, "run.json", "s.json", says="nothing to compare")
        self.assertIn("only in s.json: other/v00/p/event", done.stdout)
        self.assertIn("family other", done.stderr)


class Selection(CompareTest):
    def test_each_filter_searches_and_a_minus_negates(self):
        everything = self.names(1, "run.json")
        for flag, part in (("variant", 1), ("problem", 2), ("mode", 3)):
            for text, test in (
                ("v01|1x1|event", lambda name: re.search("v01|1x1|event", name)),
                ("-v01|1x1|event", lambda name: not re.search("v01|1x1|event", name)),
                ("^event$", lambda name: name == "event"),
            ):
                expected = {name for name in everything if test(name.split("/")[part])}
                done = self.bench("run.json", f"--{flag}={text}", "--format=json", executable=COMPARE)
                found = {row["name"] for row in load_strict(done.stdout)["rows"]} if done.stdout else set()
                self.assertEqual(found, expected, f"--{flag}={text}")
        self.assertEqual(self.names(1, "run.json", "--family=^twice$"), everything)
        self.compare(3, "run.json", "--family=-twice", says="nothing to compare")

    def test_an_unknown_variant_says_what_there_is(self):
        done = self.compare(3, "run.json", "--variant=v99", says="nothing to compare")
        self.assertEqual(done.stdout, "")
        for word in ("run.json holds", "family twice", "v01_fast", "64x8", "event_cold"):
            self.assertIn(word, done.stderr)
        self.compare(3, "run.json", "--ranking", "--variant=v99", says="nothing to compare")
        self.compare(3, "run.json", "--decompose", "--variant=v99", says="nothing to compare")

    def test_a_store_without_times(self):
        write(self.folder, "s.json", store([], unavailable=[absence("f/v00/p/event", "unavailable", "no", "arch")]))
        self.compare(3, "s.json", says="s.json holds no benchmark with a time, and 1 without one")

    def test_what_is_wrong_is_named_where_no_row_is_left(self):
        bad = [absence("f/v00/p/event", "wrong", "y[1] is 3"), absence("f/v01/p/event", "failed", "out of memory")]
        write(self.folder, "s.json", store([], failed=bad))
        text = self.compare(3, "s.json", says="nothing to compare").stdout
        self.assertIn("without a time in s.json: f/v00/p/event: wrong: y[1] is 3", text)
        self.assertIn("without a time in s.json: f/v01/p/event: failed: out of memory", text)
        report = load_strict(self.compare(3, "s.json", "--format=json").stdout)
        self.assertEqual([entry["status"] for entry in report["without_time"]], ["wrong", "failed"])


class Views(CompareTest):
    def test_ranking_puts_the_fastest_first(self):
        rows = self.rows(0, "run.json", "--ranking", "--mode=^event$")
        self.assertEqual([row["rank"] for row in rows], list(range(1, 9)))
        medians = [row["median_us"] for row in rows]
        self.assertEqual(medians, sorted(medians))
        self.assertEqual((rows[0]["variant"], rows[0]["word"], rows[0]["ratio"]), ("v01_fast", "best", 1))
        self.assertEqual({row["best"] for row in rows}, {"v01_fast"})
        host = self.rows(0, "run.json", "--ranking", "--mode=host")
        self.assertEqual(
            [(row["kind"], row["rank"]) for row in host], [(k, n) for k in ("gpu", "host") for n in (1, 2)]
        )

    def test_a_commit_with_changes_is_none(self):
        changed = store([benchmark("f/v00_a/p/event", 5.0), benchmark("f/v01_a/p/event", 5.0)])
        changed["mage"]["provenance"]["git_dirty"] = True
        write(self.folder, "changed.json", changed)
        done = self.compare(0, "changed.json")
        self.assertIn("commit 0123456789ab with changes,", done.stdout)
        self.assertNotIn("with changes", self.compare(1, "run.json").stdout)

    def test_a_counter_example_is_never_the_best(self):
        wrong = benchmark("f/v01_wrong/p/event", 1.0, flags=["counter_example"])
        write(self.folder, "wrong.json", store([wrong, benchmark("f/v00_right/p/event", 5.0)]))
        rows = self.rows(0, "wrong.json", "--ranking")
        self.assertEqual(
            [(row["variant"], row["word"]) for row in rows], [("v00_right", "best"), ("v01_wrong", "faster")]
        )
        self.assertTrue(any("counter_example" in note for note in rows[1]["notes"]), rows[1]["notes"])

    def test_what_was_picked_is_told(self):
        def best(picked, **changes):
            rows = benchmark("f/best/p/event", 5.0)
            for row in rows[0]:
                row["mage"]["picked"] = picked
            return store([rows, benchmark("f/v00_a/p/event", 5.0)], **changes)

        write(self.folder, "old.json", best("v01"))
        write(self.folder, "later.json", best("v02", run_id="1" * 32))
        (row,) = self.rows(0, "old.json")
        self.assertEqual((row["picked"], row["notes"][-1]), ("v01", "runs v01"))
        rows = {row["candidate"]: row for row in self.rows(0, "old.json", "later.json")}
        self.assertIn("picks another variant: v01, now v02", rows["best"]["notes"])
        self.assertIsNone(rows["v00_a"]["picked"])

    def test_missing_rounds_make_no_best(self):
        # v01 has no part in the slow rounds: its median is the lower one, though it is slower in each that both have.
        pair = [
            with_medians("f/v00_a/p/event", dict(enumerate((5.0, 5.05, 6.0, 6.05, 6.1)))),
            with_medians("f/v01_a/p/event", {0: 5.3, 1: 5.353}),
        ]
        write(self.folder, "s.json", store(pair))
        rows = self.rows(0, "s.json", "--ranking")
        self.assertEqual([(row["variant"], row["rank"]) for row in rows], [("v00_a", 1), ("v01_a", 2)])
        self.assertLess(rows[1]["median_us"], rows[0]["median_us"])
        self.assertAlmostEqual(rows[1]["ratio"], 1.06, places=4)

    def test_nothing_below_the_best_is_faster(self):
        spread = (1.0, 1.0001, 0.9999, 1.0002, 0.9998)
        for rounds in (None, (0, 1, 2, 3)):  # with its rounds, and with one missing
            with self.subTest(rounds):
                write(
                    self.folder,
                    "s.json",
                    store(
                        [
                            benchmark("f/v00_a/p/event", 5.0, spread=spread),
                            benchmark("f/v01_a/p/event", 4.5, spread=spread, rounds=rounds),
                            benchmark("f/v02_a/p/event", 4.4, inputs="ba" * 32, rounds=(0, 1, 2)),
                        ]
                    ),
                )
                rows = self.rows(0, "s.json", "--ranking")
                self.assertEqual(
                    [(row["variant"], row["word"]) for row in rows],
                    [("v01_a", "best"), ("v00_a", "slower"), ("v02_a", "not comparable")],
                )
                self.assertEqual([row["rounds"] for row in rows], [None, len(rounds or range(5)), None])
        # By the medians v00 is best. Round by round v01 is faster in all but one, which is that of both medians.
        pair = [
            with_medians("f/v00_a/p/event", dict(enumerate((10.0, 20.0, 30.0, 40.0, 50.0)))),
            with_medians("f/v01_a/p/event", dict(enumerate((9.0, 18.0, 30.1, 36.0, 45.0)))),
        ]
        write(self.folder, "s.json", store(pair))
        self.assertEqual(
            [
                (row["variant"], row["word"])
                for row in self.rows(0, "s.json", "--ranking", "--alpha=0.2", "--claim_alpha=0.2")
            ],
            [("v01_a", "best"), ("v00_a", "slower")],
        )

    def test_a_circle_has_no_order(self):
        # Each is a tenth faster than the next in the three rounds that the two share.
        first, second, third = range(3), range(3, 6), range(6, 9)
        circle = [
            with_medians(name, {**dict.fromkeys(won, 9.0), **dict.fromkeys(lost, 10.0)}, 9, flags=["missing_rounds"])
            for name, won, lost in (
                ("f/v00/p/event", first, third),
                ("f/v01/p/event", second, first),
                ("f/v02/p/event", third, second),
            )
        ]
        write(self.folder, "s.json", store(circle))
        rows = self.rows(0, "s.json", "--ranking")
        self.assertEqual(sorted(row["word"] for row in rows), ["best", "inconclusive", "slower"])
        self.assertIn("no order", next(row for row in rows if row["word"] == "inconclusive")["notes"][0])

    def test_a_ranking_of_nothing_comparable_says_so(self):
        self.compare(3, "run.json", "--ranking", "--mode=kernel", says="nothing could be compared: no row can stand")
        others = [benchmark(f"f/v0{k}/p/event", 5.0, inputs=f"{k}b" * 32) for k in range(3)]
        write(self.folder, "s.json", store(others))
        self.compare(3, "s.json", "--ranking", says="nothing could be compared")

    def test_rounds_that_share_none_have_no_figures(self):
        pair = [benchmark("f/v00_a/p/event", 5.0, rounds=(0, 1)), benchmark("f/v01_a/p/event", 6.0, rounds=(2, 3))]
        write(self.folder, "s.json", store(pair))
        row = self.rows(0, "s.json")[0]
        figures = ("baseline_us", "candidate_us", "ratio", "ratio_low", "ratio_high", "hodges_lehmann_ratio", "p_value")
        self.assertEqual({key: row[key] for key in figures}, dict.fromkeys(figures))
        self.assertEqual((row["word"], row["rounds"], row["pairing"]), ("inconclusive", 0, "paired by round"))
        self.assertIn(",inconclusive,,,,,,,,,,0,", self.compare(0, "s.json", "--format=csv").stdout)
        cells = r"v00_a\W+-\W+-\W+-\W+-\W+-\W+0 paired"
        for flags in ([], ["--format=markdown"]):
            text = self.compare(0, "s.json", *flags).stdout.replace("\\", "")
            self.assertRegex(text, cells)
            self.assertNotIn("1.0000", text)
        ranked = self.rows(0, "s.json", "--ranking")[1]
        self.assertEqual((ranked["ratio"], ranked["rounds"], ranked["median_us"] is None), (None, 0, False))
        write(self.folder, "s.json", store([pair[0], benchmark("f/v01_a/p/event", 6.0, inputs="ba" * 32)]))
        for flags in ([], ["--ranking"]):
            self.assertIsNone(self.rows(3, "s.json", *flags)[-1]["rounds"], flags)

    def test_decomposition_adds_up(self):
        rows = {(row["variant"], row["problem"]): row for row in self.rows(0, "run.json", "--decompose")}
        row = rows["v01_fast", "64x8"]
        expected = {
            "submit_us": 4.1,
            "event_us": 8.0,
            "kernels_us": 5.5,
            "gaps_us": 2.4 - (2.5 - 0.5),
            "event_overhead_us": 2.5 - 0.5,
            "residual_us": 8.0 - 5.5 - 2.4,
            "host_us": 17.0,
            "host_exposure_us": 17.0 - 8.0,
            "batch_us": 6.5,
            "graph_us": 6.0,
            "graph_saving_us": 0.5,
        }
        for key, value in expected.items():
            self.assertAlmostEqual(row[key], value, places=9, msg=key)
        self.assertEqual(row["flags"], ["kernel: perturbed"])
        parts = row["kernels_us"] + row["gaps_us"] + row["event_overhead_us"] + row["residual_us"]
        self.assertAlmostEqual(parts, row["event_us"], places=9)
        missing = {key for key, value in rows["v00_plain", "64x8"].items() if value is None}
        self.assertEqual(missing, {"kernels_us", "gaps_us", "event_overhead_us", "residual_us"})


if __name__ == "__main__":
    unittest.main()
