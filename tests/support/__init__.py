"""Helpers shared by tests: real processes started, awaited and cleaned up."""
