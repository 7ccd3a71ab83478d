"""Tests, organised by behaviour."""
