"""Scenario files: a planet, and what happens to it step by step."""
