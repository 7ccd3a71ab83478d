"""Scenario files: a simulated cluster, and a sequence of steps."""
