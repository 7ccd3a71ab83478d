"""The environment of containers: names and variables."""
