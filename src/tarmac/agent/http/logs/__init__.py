"""Logs of containers, as the runtime writes them to files."""
