# SPDX-License-Identifier: Apache-2.0
"""--mage_recover on one journal that is broken in every way we know: what is refused, and what costs its line only."""

import json
import unittest

from compare_support import COMPARE
from program_support import ProgramTest, entries_of, journal_of

NO_JOURNAL = "not a mage_bench journal"
DAMAGED = "cut off or damaged and were left out, the first is line"


def row(line):
    return json.loads(line)["kind"] == "row"


def cut(lines):
    return [*lines[:-1], lines[-1][: len(lines[-1]) // 2]]


def with_line(number, change):
    def broken(lines):
        return [*lines[: number - 1], *change(lines[number - 1]), *lines[number:]]

    return broken


def last_row_with(old, new):
    def broken(lines):
        number = max(n for n, line in enumerate(lines, 1) if row(line))
        assert old in lines[number - 1], f"{old} is not in a row"
        return with_line(number, lambda line: [line.replace(old, new, 1)])(lines)

    return broken


# What is done to the lines of a good journal, the exit code, what stderr says, and the rows that are lost.
RECOVERED = {
    "cut in the middle of the last line": (cut, DAMAGED, 1),
    "NaN in a row": (last_row_with(b'"real_time":', b'"real_time":NaN,"was":'), DAMAGED, 1),
    "Infinity in a row": (last_row_with(b'"samples_us":[', b'"samples_us":[-Infinity,'), DAMAGED, 1),
    "a number beyond all": (last_row_with(b'"samples_us":[', b'"samples_us":[1e999,'), DAMAGED, 1),
    "a line of binary garbage": (lambda lines: [*lines, bytes(range(256)).replace(b"\n", b"")], DAMAGED, 0),
    "a huge line": (lambda lines: [lines[0], b"x" * 20_000_000, *lines[1:]], DAMAGED, 0),
    "a huge string": (lambda lines: [*lines, b'{"kind":"note","text":"' + b"x" * 20_000_000 + b'"}'], None, 0),
    "a line nested deep": (lambda lines: [lines[0], b'{"kind":' * 100_000, *lines[1:]], DAMAGED, 0),
    "a line that is no object": (lambda lines: [*lines, b"[1]", b"null", b'"kind"'], DAMAGED, 0),
    "empty lines": (lambda lines: [lines[0], b"", b"", *lines[1:]], DAMAGED, 0),
    "half a UTF-8 character": (last_row_with(b'"us"', b'"\xc3"'), DAMAGED, 1),
    "a kind from the future": (lambda lines: [*lines, b'{"kind":"future","rows":[]}'], None, 0),
    "a kind that is a list": (lambda lines: [*lines, b'{"kind":["row"]}'], None, 0),
    "a key twice in a row": (last_row_with(b'"real_time":', b'"real_time":1.0,"real_time":'), DAMAGED, 1),
    "a key twice deep in a row": (last_row_with(b'"flags":', b'"flags":["unstable"],"flags":'), DAMAGED, 1),
    "a row that is a number": (lambda lines: [*lines, b'{"kind":"row","row":7}'], DAMAGED, 0),
    "a row without its unit": (last_row_with(b'"time_unit":', b'"was":'), DAMAGED, 1),
    "a time that is a text": (last_row_with(b'"real_time":', b'"real_time":"x","was":'), DAMAGED, 1),
    "a time below zero": (last_row_with(b'"real_time":', b'"real_time":-1.0,"was":'), DAMAGED, 1),
    "no samples": (last_row_with(b'"parts_us":{', b'"parts_us":{"empty":[],'), DAMAGED, 1),
    "flags that are numbers": (last_row_with(b'"flags":[', b'"flags":[7],"was":['), DAMAGED, 1),
    "work that is a number": (last_row_with(b'"work":{', b'"work":7,"was":{'), DAMAGED, 1),
    "a row that is number 1 of 0": (last_row_with(b'"rounds":', b'"rounds":0,"was":'), DAMAGED, 1),
    "a floor without its time": (lambda lines: [*lines, b'{"kind":"floor","device":"host","mode":"host"}'], DAMAGED, 0),
    "a status without its name": (lambda lines: [*lines, b'{"kind":"status","status":"wrong"}'], DAMAGED, 0),
    "an end that does not say how": (lambda lines: [*lines, b'{"kind":"end"}'], DAMAGED, 0),
    "Windows' line ends": (lambda lines: [line + b"\r" for line in lines], None, 0),
}

REFUSED = {
    "a row twice": (lambda lines: [*lines, lines[-1]], "has a round twice"),
    "a key twice in the header": (
        lambda lines: [lines[0].replace(b'"seed":1', b'"seed":1,"seed":2'), *lines[1:]],
        NO_JOURNAL,
    ),
    "nothing": (lambda lines: [], NO_JOURNAL),
    "no header": (lambda lines: lines[1:], NO_JOURNAL),
    "the header cut off": (lambda lines: [lines[0][:40]], NO_JOURNAL),
    "a byte order mark, then a line of garbage": (lambda lines: [b"\xef\xbb\xbfx", *lines], NO_JOURNAL),
    "the header after a row": (lambda lines: [lines[1], lines[0], *lines[2:]], NO_JOURNAL),
    "binary garbage": (lambda lines: [bytes(range(256)) * 100], NO_JOURNAL),
    "one huge line": (lambda lines: [b"{" * 20_000_000], NO_JOURNAL),
    "NaN in the header": (lambda lines: [lines[0].replace(b'"seed":1', b'"seed":NaN'), *lines[1:]], NO_JOURNAL),
    "a header of no schema": (lambda lines: [b'{"kind":"header"}', *lines[1:]], "has the schema none"),
    "a schema that is no text": (lambda lines: [b'{"kind":"header","schema":[1]}'], "has the schema none"),
    "another schema": (
        lambda lines: [lines[0].replace(b'"schema":"mage_bench/store/1"', b'"schema":"mage_bench/store/2"')],
        "has the schema mage_bench/store/2; this mage_bench writes mage_bench/store/1",
    ),
    "a header without its parts": (
        lambda lines: [b'{"kind":"header","schema":"mage_bench/store/1"}', *lines[1:]],
        "without the fields that mage_bench writes",
    ),
    "an option of the header that is a text": (
        lambda lines: [lines[0].replace(b'"seed":1', b'"seed":"x"'), *lines[1:]],
        "mage.options.seed is 'x', and should be a whole number",
    ),
    "a row whose work differs": (
        last_row_with(b'"bytes_read":', b'"bytes_read":1.0,"was":'),
        "mage has another work than an earlier row of 'copy/",
    ),
}


class Corpus(ProgramTest):
    def setUp(self):
        super().setUp()
        self.kill_a_run(rows=3)
        lines = self.journal().split(b"\n")
        whole = entries_of(self.journal())
        last = max(number for number, entry in enumerate(whole) if entry["kind"] == "row")
        self.lines = lines[: last + 1]  # so that the last line is a row
        self.rows = sum(map(row, self.lines))
        self.path = self.folder / journal_of("store.json")

    def recover(self, broken, code):
        contents = b"\n".join(broken(list(self.lines)))
        self.path.write_bytes(contents)
        (self.folder / "store.json").unlink(missing_ok=True)  # of the journal before
        done = self.expect(code, f"--mage_recover={self.path.name}")
        self.assertNotIn("json.exception", done.stderr, "the message of a library, of no use to a user")
        self.assertLess(len(done.stderr), 1000)
        self.assertEqual(self.path.read_bytes(), contents, "the journal was touched")
        return done.stderr

    def test_damage_costs_its_line(self):
        for name, (broken, says, lost) in RECOVERED.items():
            with self.subTest(name):
                stderr = self.recover(broken, 0)
                if says:
                    self.assertIn(says, stderr)
                else:
                    self.assertEqual(stderr, "")
                self.assertEqual(len(self.load("store.json")["benchmarks"]), self.rows - lost)

    def test_what_is_recovered_can_be_compared(self):
        for name in ("a row without its unit", "a floor without its time", "a status without its name"):
            with self.subTest(name):
                self.recover(RECOVERED[name][0], 0)
                done = self.bench("store.json", executable=COMPARE)
                self.assertNotEqual(done.returncode, 2, done.stderr)

    def test_each_damaged_line_is_counted_and_the_first_is_named(self):
        floor = b'{"kind":"floor","device":"host","mode":"host"}'
        stderr = self.recover(lambda lines: [lines[0], floor, b"garbage", *lines[1:], floor, b"garbage"], 0)
        self.assertIn("4 lines are cut off or damaged and were left out, the first is line 2", stderr)

    def test_what_is_no_journal_of_ours_is_refused(self):
        for name, (broken, says) in REFUSED.items():
            with self.subTest(name):
                stderr = self.recover(broken, 1)
                self.assertIn(self.path.name, stderr)
                self.assertEqual(len(stderr.splitlines()), 1)
                if says:
                    self.assertIn(says, stderr)
                self.assertEqual(self.files(), [self.path.name])

    def test_a_header_alone_holds_nothing(self):
        self.path.write_bytes(self.lines[0] + b"\n")
        done = self.bench(f"--mage_recover={self.path.name}")
        self.assertEqual((done.returncode, done.stderr), (3, ""))
        self.assertIn("recovered 0 rows", done.stdout)


if __name__ == "__main__":
    unittest.main()
