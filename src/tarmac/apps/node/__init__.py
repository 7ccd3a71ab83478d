"""Composition root of a node."""
