"""Validation of the networking kinds."""
