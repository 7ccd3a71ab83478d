"""Decisions about connections from outside to instances. Pure."""
