"""Tarmac lands workloads in cities: one declarative object becomes running instances, and stays that way."""

__version__ = "0.2.0"
