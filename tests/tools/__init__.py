"""Tests of the set-up and of the checks."""
