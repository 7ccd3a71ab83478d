"""Fault injection, drawn from one seed and counted."""
