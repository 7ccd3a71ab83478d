"""Admission: a chain of small named plugins that may change or reject a write."""
