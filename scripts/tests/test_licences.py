"""The licence check reads expressions and versions as their authors meant them."""

import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import licences  # noqa: E402

ALLOWED = {"MIT", "Apache-2.0", "Apache-2.0 WITH LLVM-exception", "Unicode-3.0"}


def package(name, version, **more):
    return {"name": name, "version": version, "license": "MIT", "source": "registry+x", **more}


class Expressions(unittest.TestCase):
    def test_expressions_are_met_or_not(self):
        for expression, met in [
            ("MIT", True),
            ("GPL-3.0", False),
            ("MIT OR GPL-3.0", True),
            ("MIT AND GPL-3.0", False),
            ("MIT/Apache-2.0", True),
            ("(MIT OR GPL-3.0) AND Unicode-3.0", True),
            ("GPL-3.0 OR MIT AND Zlib", False),
            ("Apache-2.0 WITH LLVM-exception OR GPL-3.0", True),
            ("GPL-2.0 WITH Classpath-exception-2.0", False),
        ]:
            with self.subTest(expression):
                self.assertEqual(licences.satisfied(expression, ALLOWED), met)

    def test_nonsense_is_refused(self):
        for expression in ["", "MIT OR", "(MIT", "MIT MIT", ")"]:
            with self.subTest(expression), self.assertRaises(ValueError):
                licences.satisfied(expression, ALLOWED)


class Bans(unittest.TestCase):
    def test_versions_are_matched(self):
        for version, rule, hit in [
            ("1.2.3", "x", True),
            ("1.2.3", "y", False),
            ("1.2.3", "x@<1.10.0", True),
            ("1.10.0", "x@<1.10.0", False),
            ("0.5.14", "x@<0.5.15", True),
            ("2.0.119", "x@2", True),
            ("3.0.9", "x@2", False),
            ("1.1.8+spec-1.1.0", "x@=1.1.8", True),
        ]:
            with self.subTest(version=version, rule=rule):
                self.assertEqual(licences.matches(package("x", version), rule), hit)

    def test_bans_and_doubles_and_stale_skips_are_found(self):
        packages = [package("a", "1.0.0"), package("a", "2.0.0"), package("b", "1.0.0"), package("b", "2.0.0")]
        rules = {"bans": {"deny": [{"crate": "b@1", "reason": "bad"}], "skip": [{"crate": "b@1"}, {"crate": "c@1"}]}}
        found = list(licences.bans(packages, rules))
        self.assertEqual(len(found), 3, found)
        self.assertIn("b 1.0.0: banned, bad", found)
        self.assertTrue(any("c@1" in each for each in found))
        self.assertTrue(any(each.startswith("a: 2 versions") for each in found))

    def test_a_ban_makes_its_exceptions_and_no_others(self):
        rules = {"bans": {"deny": [{"crate": "b", "wrappers": ["a"], "reason": "bad"}], "skip": []}}
        wants_b = {"dependencies": [{"name": "b", "kind": None}]}
        within = [package("a", "1.0.0") | wants_b, package("b", "1.0.0")]
        self.assertEqual(list(licences.bans(within, rules)), [])
        self.assertEqual(len(list(licences.bans([*within, package("c", "1.0.0") | wants_b], rules))), 1)

    def test_a_foreign_source_is_found(self):
        rules = {"sources": {"allow-registry": ["x"]}}
        self.assertEqual(list(licences.sources([package("a", "1.0.0")], rules)), [])
        self.assertEqual(len(list(licences.sources([package("a", "1.0.0", source="git+y")], rules))), 1)


if __name__ == "__main__":
    unittest.main()
