"""Tests of what checks the rest."""
