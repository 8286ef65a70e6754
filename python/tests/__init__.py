"""Tests of the package, with the standard library alone."""
