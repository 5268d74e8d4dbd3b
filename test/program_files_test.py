# SPDX-License-Identifier: Apache-2.0
"""Where the store may go, what is never overwritten, and journals that no run of ours left."""

import os
import re
import shutil
import unittest

from program_support import EXECUTABLE, HOST, QUICK, ProgramTest, environment, journal_of

SELECT = f"--benchmark_filter={HOST}"


class Store(ProgramTest):
    def test_an_existing_store_is_replaced_on_demand_only(self):
        first = self.measure()
        text = (self.folder / "store.json").read_bytes()
        done = self.expect(1, SELECT, "--benchmark_out=store.json", *QUICK)
        self.assertIn("the store store.json exists; use --mage_overwrite to replace it", done.stderr)
        self.assertEqual(done.stdout, "", "it was measured before the refusal")
        self.assertEqual((self.folder / "store.json").read_bytes(), text)
        second = self.measure("--mage_overwrite")
        self.assertNotEqual(first["context"]["mage_run_id"], second["context"]["mage_run_id"])
        self.assertEqual(self.files(), ["store.json"])

    def test_any_file_counts_as_a_store(self):
        (self.folder / "notes.txt").write_text("precious")
        os.symlink("nowhere", self.folder / "link.json")
        self.expect(1, SELECT, "--benchmark_out=notes.txt", *QUICK, says="the store notes.txt exists")
        for flags in ([], ["--mage_overwrite"]):
            for name in ("link.json", "/dev/null"):
                self.expect(1, SELECT, f"--benchmark_out={name}", *flags, *QUICK, says="is no regular file")
        self.assertEqual((self.folder / "notes.txt").read_text(), "precious")
        self.assertEqual(os.readlink(self.folder / "link.json"), "nowhere")

    def test_a_file_is_no_folder(self):
        (self.folder / "file").touch()
        (self.folder / "results").touch()
        for flags in (["--benchmark_out=file/store.json"], ["--benchmark_out=file/deeper/store.json"], []):
            with self.subTest(flags=flags):
                done = self.expect(1, SELECT, *flags, *QUICK)
                self.assertRegex(done.stderr, "Not a directory|File exists")
                self.assertIn("file" if flags else "results", done.stderr)
                self.assertEqual(done.stdout, "", "it was measured before the refusal")
        self.assertEqual(self.files(), ["file", "results"])

    def test_a_folder_is_no_file(self):
        (self.folder / "folder").mkdir()
        for name in ("folder", "folder/", "new/", "."):
            for flags in ([], ["--mage_overwrite"]):
                with self.subTest(name=name, flags=flags):
                    self.expect(1, SELECT, f"--benchmark_out={name}", *flags, *QUICK, says="is a folder; name a file")
        self.assertEqual(self.files(), [])

    def test_a_folder_without_permission(self):
        # Root may write anywhere, so it runs the program as somebody else.
        somebody = {"user": 65534, "group": 65534, "extra_groups": []} if os.geteuid() == 0 else {}
        program = self.folder / "mage_bench"
        shutil.copy(EXECUTABLE, program)
        locked = self.folder / "locked"
        locked.mkdir()
        self.folder.chmod(0o755)
        locked.chmod(0o555)
        for name in ("locked/store.json", "locked/new/store.json"):
            with self.subTest(name=name):
                done = self.expect(1, SELECT, f"--benchmark_out={name}", *QUICK, executable=program, **somebody)
                self.assertIn("Permission denied", done.stderr)
                self.assertIn("locked", done.stderr)
                self.assertEqual(done.stdout, "", "it was measured before the refusal")
        self.assertEqual(self.files(), ["mage_bench"])

    def test_a_name_that_is_too_long(self):
        done = self.expect(1, SELECT, f"--benchmark_out={'n' * 300}", *QUICK)
        self.assertIn("File name too long", done.stderr)
        self.assertEqual(self.files(), [])

    def test_two_runs_cannot_have_one_store(self):
        running = self.start()
        done = self.expect(1, SELECT, "--benchmark_out=store.json", *QUICK, says="the journal store.json.journal.jsonl")
        self.assertIn("exists", done.stderr)
        self.assertIsNone(running.poll(), "the second run disturbed the first")


class ForeignJournal(ProgramTest):
    """--mage_recover on files that are no journal, or one that somebody damaged."""

    def recover(self, contents, code=1):
        path = self.folder / journal_of("store.json")
        path.write_bytes(contents)
        done = self.expect(code, f"--mage_recover={path.name}")
        self.assertNotIn("json.exception", done.stderr, "the message of a library, of no use to a user")
        self.assertIn(path.name, done.stderr)
        self.assertEqual(self.files(), [path.name])
        self.assertEqual(path.read_bytes(), contents, "the journal was touched")
        return done.stderr

    def header(self):
        self.kill_a_run(rows=2)
        whole = self.journal().split(b"\n")
        return whole[0] + b"\n", whole[1:]

    def test_garbage(self):
        for contents in (
            b"",
            b"\n",
            b"garbage",
            b"\0" * 5000,
            b"\xff\xfe" * 99,
            b"{}\n",
            b"[]\n",
            b"7\n",
            b"[" * 10**6,
        ):
            with self.subTest(contents=contents[:20]):
                self.assertRegex(self.recover(contents), "not a (line of a )?mage_bench journal")

    def test_a_store_is_no_journal(self):
        self.measure(store="other.json")
        contents = (self.folder / "other.json").read_bytes()
        (self.folder / "other.json").unlink()
        self.assertIn("not a mage_bench journal", self.recover(contents))

    def test_a_header_without_its_fields(self):
        self.recover(b'{"kind":"header"}\n')
        self.recover(b'{"kind":"header","schema":"mage_bench/store/1"}\n')

    def test_another_schema_is_named(self):
        head, lines = self.header()
        other = head.replace(b'"schema":"mage_bench/store/1"', b'"schema":"mage_bench/store/999"')
        self.assertNotEqual(other, head)
        self.assertIn("mage_bench/store/999", self.recover(other + b"\n".join(lines)))

    def test_another_protocol_is_named(self):
        head, lines = self.header()
        other = head.replace(b'"protocol":3', b'"protocol":999')
        self.assertNotEqual(other, head)
        said = self.recover(other + b"\n".join(lines))
        for part in ("store.json.journal.jsonl", "protocol 999", "1 to 3"):
            self.assertIn(part, said)

    def test_damage_costs_its_own_line_only_and_names_it(self):
        head, lines = self.header()
        path = self.folder / journal_of("store.json")
        rows = sum(line.startswith(b'{"kind":"row"') and line.endswith(b"}") for line in lines)
        for damage in (
            b"damage",
            b'{"kind":"row"}',
            b'{"kind":"row","row":{}}',
            b'{"kind":"status"}',
            b'{"kind":"gate"}',
        ):
            with self.subTest(damage=damage):
                path.write_bytes(head + damage + b"\n" + b"\n".join(lines))
                done = self.expect(0, f"--mage_recover={path.name}", "--mage_overwrite")
                self.assertIn("the first is line 2", done.stderr)
                self.assertEqual(len(self.load("store.json")["benchmarks"]), rows)

    def test_what_cannot_be_read(self):
        (self.folder / "folder").mkdir()
        for name in ("missing.journal.jsonl", "folder", "missing"):
            self.expect(1, f"--mage_recover={name}", says=name)
        self.assertEqual(self.files(), [])

    def test_a_journal_of_another_name_needs_a_store_to_be_named(self):
        self.kill_a_run(rows=2)
        (self.folder / journal_of("store.json")).rename(self.folder / "renamed")
        self.expect(2, "--mage_recover=renamed", says="Name the store with --benchmark_out")
        self.expect(0, "--mage_recover=renamed", "--benchmark_out=named/here.json")
        self.load("named/here.json")

    def test_a_journal_that_was_left_blocks_a_new_run_until_it_is_moved(self):
        self.kill_a_run(rows=2)
        for flags in ([], ["--mage_overwrite"]):
            done = self.expect(1, SELECT, "--benchmark_out=store.json", *QUICK, *flags)
            found = re.search(r"--mage_recover=(\S+), or move it away", done.stderr)
            self.assertEqual(found.group(1), "store.json.journal.jsonl")
        (self.folder / journal_of("store.json")).unlink()
        self.measure()

    def test_the_environment_does_not_move_a_recovered_store_over_another(self):
        self.kill_a_run(rows=2)
        (self.folder / "other.json").write_text("precious")
        self.expect(1, f"--mage_recover={journal_of('store.json')}", env=environment(BENCHMARK_OUT="other.json"))
        self.assertEqual((self.folder / "other.json").read_text(), "precious")


if __name__ == "__main__":
    unittest.main()
