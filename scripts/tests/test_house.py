"""The house rules find what they are for, and nothing else."""

import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import house  # noqa: E402
from rust_text import code_only, without_tests  # noqa: E402


def breaches(path, source):
    return [what for _, _, what in house.check_rust(path, source)]


class RustText(unittest.TestCase):
    def test_comments_and_strings_are_blanked_and_lines_kept(self):
        for source, code in [
            ("a // unsafe\nb", "a\nb"),
            ("a /* x /* y */ unsafe */ b", "a b"),
            ('f("unsafe \\" // x") g', "f( ) g"),
            ('r#"unsafe " x"# y', "y"),
            ("'\"' x '\\'' y b'z' w", "x y w"),
            ("'\\u{1F600}' x", "x"),
            ("fn f<'a>(x: &'a str) // 'b", "fn f<'a>(x: &'a str)"),
        ]:
            with self.subTest(source):
                blanked = code_only(source)
                self.assertEqual(len(blanked), len(source))
                self.assertEqual(blanked.count("\n"), source.count("\n"))
                self.assertEqual(blanked.split(), code.split())

    def test_a_test_module_is_cut_off(self):
        self.assertEqual(without_tests("a\n#[cfg(test)]\nmod tests {\n b }"), "a\n")
        self.assertEqual(without_tests("#[cfg(test)]\nmod tests;\na"), "#[cfg(test)]\nmod tests;\na")


class RustRules(unittest.TestCase):
    def test_a_sound_file_passes(self):
        self.assertEqual(breaches("crates/core/src/lanes.rs", '//! Lanes.\nfn f() { let s = "println!"; }\n'), [])

    def test_each_rule_finds_its_breach(self):
        room = "crates/runtime/src/process/spawn.rs"
        for path, source, word in [
            ("crates/core/src/a.rs", "fn f() {}\n", "//!"),
            ("crates/core/src/a.rs", "//! A.\n" + "\n" * 500, "two rooms"),
            ("crates/core/src/utils.rs", "//! A.\n", "says nothing"),
            ("crates/core/src/utils/a.rs", "//! A.\n", "says nothing"),
            ("crates/core/src/a.rs", "//! A.\nunsafe { f() }\n", "outside its rooms"),
            (room, "//! A.\n\nunsafe { f() }\n", "SAFETY"),
            (room, "//! A.\n\n// SAFETY: of another.\n\nunsafe { f() }\n", "SAFETY"),
            ("crates/report/src/a.rs", "//! A.\nfn f() { println!(); }\n", "only the cli prints"),
            ("crates/cli/src/run.rs", "//! A.\nfn f() { std::process::exit(1) }\n", "main.rs"),
            ("crates/cli/src/run.rs", "//! A.\nfn f() { dbg!(1); }\n", "dbg!"),
            ("crates/runtime/src/front.rs", "//! A.\nfn f() { std::fs::write(log, text); }\n", "gpulane_files"),
            ("crates/journal/src/lock_file.rs", "//! A.\nfn f() { File::open(path); }\n", "gpulane_files"),
        ]:
            with self.subTest(word=word, path=path):
                found = breaches(path, source)
                self.assertEqual(len(found), 1, found)
                self.assertIn(word, found[0])

    def test_what_is_allowed_passes(self):
        room = "crates/runtime/src/process/spawn.rs"
        for path, source in [
            (room, "//! A.\n\n// SAFETY: nothing else holds it.\nlet x = unsafe { f() };\n"),
            ("crates/cli/src/run.rs", "//! A.\nfn f() { println!(); }\n"),
            ("crates/cli/src/main.rs", "//! A.\nfn main() { std::process::exit(1) }\n"),
            ("crates/core/tests/story.rs", "fn f() { println!(); }\n"),
            ("crates/core/src/a.rs", "//! A.\n#[cfg(test)]\nmod tests {\n fn f() { println!(); }\n}\n"),
            ("crates/core/src/a.rs", "//! A.\n#![allow(unsafe_code)]\n"),
        ]:
            with self.subTest(path=path, source=source):
                self.assertEqual(breaches(path, source), [])


class Line(unittest.TestCase):
    def test_an_import_against_the_line_is_found(self):
        manifest = {"dependencies": {"gpulane-model": {}, "gpulane-report": {}, "serde": {}}}
        found = list(house.check_imports("Cargo.toml", "runtime", house.LINE["runtime"], manifest))
        self.assertEqual(len(found), 1)
        self.assertIn("`runtime` may not import `report`", found[0][2])

    def test_tests_may_import_what_they_like(self):
        manifest = {"dev-dependencies": {"gpulane-testkit": {}}}
        self.assertEqual(list(house.check_imports("Cargo.toml", "core", house.LINE["core"], manifest)), [])

    def test_the_line_has_no_cycle(self):
        settled = set()
        while len(settled) < len(house.LINE):
            free = {crate for crate, uses in house.LINE.items() if uses <= settled} - settled
            self.assertTrue(free, f"a cycle beyond {settled}")
            settled |= free


class Links(unittest.TestCase):
    def test_links_are_followed_and_headings_found(self):
        self.assertEqual(list(house.check_links("docs/x.md", "[a](../Cargo.toml) [b](https://x.y) `[c](nowhere)`")), [])
        self.assertEqual(len(list(house.check_links("docs/x.md", "[a](nowhere.md)"))), 1)
        self.assertEqual(list(house.check_links("docs/x.md", "```\n[a](nowhere.md)\n```")), [])
        self.assertEqual(house.headings("# Who ends whom?\n## `a` and b"), {"who-ends-whom", "a-and-b"})


if __name__ == "__main__":
    unittest.main()
