"""Tests that the documentation is true."""
