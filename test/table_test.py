# SPDX-License-Identifier: Apache-2.0
"""tools/table.py: what it prints from a store, and that the committed pages are what their stores say."""

import importlib.util
import json
import re
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
TOOL = ROOT / "tools" / "table.py"
sys.path.insert(0, str(TOOL.parent))
spec = importlib.util.spec_from_file_location("table", TOOL)
table = importlib.util.module_from_spec(spec)
spec.loader.exec_module(table)

AGGREGATES = [
    {"name": "copy/v00/8x8/event", "median_us": 100.0, "flags": []},
    {"name": "copy/v01/8x8/event", "median_us": 90.0, "flags": ["throttled"]},
    {"name": "gelu/v00/8x8/event", "median_us": 120.04, "flags": []},
    {"name": "gelu/v01/8x8/event", "median_us": 90.0, "flags": []},
    {"name": "gelu/v01/8x8/graph", "median_us": 7.125, "flags": ["perturbed", "floor_dominated"]},
]


class Table(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = Path(folder.name)
        (self.root / "s.json").write_text(json.dumps({"mage": {"aggregates": AGGREGATES}}))

    def test_medians_beside_the_fastest_of_another_family(self):
        text = table.render("store=s.json problems=8x8 modes=event families=gelu beside=copy", self.root)
        self.assertEqual(
            text,
            "| us | 8x8 event |\n| --- | ---: |\n| gelu/v00 | 120.0 (0.750) |\n| gelu/v01 | 90.00 (1.000) |\n",
        )

    def test_a_row_that_is_missing_is_a_dash_and_never_a_number(self):
        text = table.render("store=s.json problems=8x8 modes=event,graph families=gelu", self.root)
        self.assertIn("| gelu/v00 | 120.0 | - |", text)
        self.assertIn("| gelu/v01 | 90.00 | 7.12 fp |", text)

    def test_some_variants(self):
        text = table.render("store=s.json problems=8x8 modes=event variants=1$", self.root)
        self.assertEqual(re.findall(r"^\| (\w+/\w+) ", text, re.MULTILINE), ["copy/v01", "gelu/v01"])

    def test_flags_are_shown_and_explained(self):
        text = table.render("store=s.json problems=8x8 modes=event,graph", self.root)
        self.assertIn("| copy/v01 | 90.00 t | - |", text)
        self.assertTrue(text.endswith("\nFlags: f floor_dominated, p perturbed, t throttled.\n"))

    def test_every_flag_of_a_store_has_a_letter_of_its_own(self):
        header = (ROOT / "bench" / "store.hpp").read_text()
        flags = re.findall(r'inline constexpr const char\* (\w+) = "\1";', header)
        self.assertGreater(len(flags), 5)
        self.assertEqual(set(flags), set(table.LETTERS))
        self.assertEqual(len(set(table.LETTERS.values())), len(table.LETTERS))

    def test_the_share_of_the_ceiling(self):
        rows = [{"name": "f/v/8x8/event", "median_us": 10.0, "flags": [], "ceiling": {"fraction": 0.954}}]
        (self.root / "c.json").write_text(json.dumps({"mage": {"aggregates": rows}}))
        text = table.render("store=c.json problems=8x8 modes=event ceiling=yes", self.root)
        self.assertIn("| f/v | 10.00 (95 %) |", text)

    def test_what_cannot_be_printed_is_an_error(self):
        for text in (
            "store=s.json problems=8x8",
            "store=none.json problems=8x8 modes=event",
            "store=s.json problems=9x9 modes=event",
            "store=s.json problems=8x8 modes=graph families=gelu beside=copy",
            "store=s.json problems=8x8 modes=event colour=red",
            "store=s.json problems=8x8 modes=event ceiling=no",
            "store=s.json problems=8x8 modes=event variants=v9",
            "store=s.json problems=8x8 modes=event variants=(",
        ):
            with self.subTest(text), self.assertRaises(table.TableError):
                table.render(text, self.root)

    def test_a_broken_end_mark_is_an_error_and_swallows_nothing(self):
        mark = "<!-- table store=s.json problems=8x8 modes=event -->\n"
        for page in (mark, mark + "<!-- end of table -->\nprose\n" + mark + "<!-- end table -->", "<!-- end table -->"):
            with self.subTest(page), self.assertRaises(table.TableError):
                table.rewrite(page, self.root)

    def test_check_notices_a_changed_figure(self):
        page = "<!-- table store=s.json problems=8x8 modes=event -->\n<!-- end table -->"
        whole = table.rewrite(page, self.root)
        self.assertIn("120.0", whole)
        self.assertEqual(table.rewrite(whole, self.root), whole)
        self.assertNotEqual(table.rewrite(whole.replace("120.0", "99.0"), self.root), whole.replace("120.0", "99.0"))


class OtherTables(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = Path(folder.name)
        check = {"what": "a|b", "expected": "1", "measured": "2", "outcome": "failed"}
        proof = {"name": "order", "outcome": "failed", "reason": "", "checks": [check]}
        (self.root / "s.json").write_text(json.dumps({"mage": {"selftest": [proof]}}))
        peers = {"variant": "v", "figures": {"8x8": {"do_bench": {"us": 3.25}}}, "telling": {}}
        (self.root / "p.json").write_text(json.dumps(peers))

    def page(self, kind, spec):
        return table.rewrite(f"before\n<!-- {kind} {spec} -->\n<!-- end {kind} -->\nafter", self.root)

    def test_the_checks_of_a_proof(self):
        page = self.page("selftest", "s.json order")
        self.assertIn("| a\\|b | 1 | 2 | failed |\n\norder: failed\n<!-- end selftest -->\nafter", page)

    def test_some_checks_of_a_proof(self):
        self.assertIn("| failed |\n\norder: failed\n", self.page("selftest", "s.json order b$"))
        with self.assertRaises(table.TableError):
            self.page("selftest", "s.json order c")

    def test_what_other_timers_say(self):
        self.assertIn("| do_bench | 3.25 |", self.page("peers", "p.json figures"))

    def test_best_beside_pytorch(self):
        rows = [
            {"name": f"f/{variant}/8x8/graph", "median_us": us, "flags": []}
            for variant, us in (("torch_eager", 30.0), ("torch_compile", 21.0), ("mage_best", 10.0))
        ]
        rows[2] |= {"picked": "v04", "flags": ["throttled"]}
        (self.root / "t.json").write_text(json.dumps({"mage": {"aggregates": rows}}))
        page = self.page("torch", "t.json f")
        self.assertIn("| us | eager graph | compile graph | best graph | compile / best | best runs |\n", page)
        self.assertIn("| 8x8 | 30.00 | 21.00 | 10.00 t | **2.100** | v04 |\n\nFlags: t throttled.\n", page)
        self.assertEqual(self.page("torch", "t.json f 8x8").count("| 8x8 |"), 1)
        for lacking in ("t.json f,g", "t.json f 9x9"):
            with self.assertRaises(table.TableError):
                self.page("torch", lacking)

    def test_hardware_counters(self):
        samples = {name: [1.0, 2.0, 9.0] for group in table.ncu_check.GROUPS for name in group}
        reading = {"name": "f/v/8x8/event", "kernels": 1, "passes": None, "samples": samples}
        check = {"what": "w", "expected": "< 1", "measured": "2", "holds": False}
        (self.root / "n.json").write_text(json.dumps({"benchmarks": [reading], "checks": [check]}))
        page = self.page("ncu", "n.json")
        self.assertIn("| f/v/8x8/event | 3 | 1 | 2.000 | 2.0 | 0.00 | 0.00 | 0.00 |\n", page)
        self.assertIn("| w | < 1 | 2 | FAILED |\n<!-- end ncu -->", page)

    def test_comma_separated_values(self):
        (self.root / "v.csv").write_text('\ufeffsize,"after a, b"\n8,1.5\n16,a|b\n', encoding="utf-8")
        page = self.page("csv", "v.csv")
        self.assertIn("\n| size | after a, b |\n| --- | --- |\n| 8 | 1.5 |\n| 16 | a\\|b |\n<!-- end csv -->", page)
        self.assertNotIn("| 8 |", self.page("csv", "v.csv ^16,"))

    def test_what_is_not_there_is_an_error(self):
        (self.root / "v.csv").write_text("a,b\n1,2\n")
        for name, text in (
            ("empty", ""),
            ("ragged", "a,b\n1,2\n3\n"),
            ("narrow", "a\n1\n"),
            ("mark", 'a,b\n"x <!-- end csv -->",2\n'),
            ("broken", 'a,b\n"x\ny",2\n'),
        ):
            (self.root / f"{name}.csv").write_text(text)
        for kind, spec in (
            ("selftest", "s.json none"),
            ("selftest", "p.json order"),
            ("selftest", "s.json"),
            ("peers", "p.json other"),
            ("peers", "none.json figures"),
            ("agreement", "s.json"),
            ("ncu", "s.json"),
            ("torch", "s.json f"),
            ("csv", "none.csv"),
            ("csv", "."),
            ("csv", "empty.csv"),
            ("csv", "ragged.csv"),
            ("csv", "narrow.csv"),
            ("csv", "mark.csv"),
            ("csv", "broken.csv"),
            ("csv", "v.csv 9"),
            ("csv", "v.csv ("),
            ("selftest", "s.json order ("),
        ):
            with self.subTest(spec), self.assertRaises(table.TableError):
                self.page(kind, spec)


class Agreement(unittest.TestCase):
    def test_counts_shifts_and_names_what_moved(self):
        def store(path, rows):
            aggregates = [
                {"name": name, "median_us": median, "floor_us": floor, "flags": flags}
                for name, median, floor, flags in rows
            ]
            path.write_text(json.dumps({"mage": {"aggregates": aggregates}}))
            return path

        with tempfile.TemporaryDirectory() as folder:
            first = store(
                Path(folder) / "a.json",
                [("f/v0/p/event", 10.0, 2.0, []), ("f/v1/p/event", 20.0, 2.0, []), ("f/cpu_v0/p/host", 5.0, None, [])],
            )
            second = store(
                Path(folder) / "b.json",
                [
                    ("f/v0/p/event", 10.2, 2.2, []),
                    ("f/v1/p/event", 20.1, 2.2, []),
                    ("f/cpu_v0/p/host", 5.0, None, []),
                    ("f/v2/p/event", 1.0, 1.0, []),
                ],
            )
            text = table.agreement.summary(first, second)
            self.assertIn("| event | 2 | 1 | +2.00 % | +0.150 | +0.200 |", text)
            self.assertIn("| host variants | 1 | 1 | +0.00 % | +0.000 | - |", text)
            self.assertEqual(table.agreement.outside(first, second, 1.0), " +2.00 %  f/v0/p/event\n")
            self.assertNotIn("protocols", text)
            second.write_text(second.read_text().replace('{"mage": {', '{"mage": {"protocol": 2, '))
            self.assertIn("\nDifferent protocols: 1, then 2;", table.agreement.summary(first, second))
            store(second, [("f/v0/p/event", 1.0, 1.0, ["floor_dominated"])])
            with self.assertRaises(table.agreement.StoreError):
                table.agreement.summary(first, second)


class CommittedPages(unittest.TestCase):
    def test_every_table_is_what_its_store_says(self):
        pages = [ROOT / "README.md"]
        for folder in ("docs", "experiments"):
            pages += sorted((ROOT / folder).rglob("*.md"))
        self.assertGreater(len(pages), 1)
        done = subprocess.run(
            [sys.executable, str(TOOL), "--check", *map(str, pages)], capture_output=True, text=True, check=False
        )
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def test_the_readme_has_a_table(self):
        self.assertRegex((ROOT / "README.md").read_text(), table.BLOCK)


if __name__ == "__main__":
    unittest.main()
