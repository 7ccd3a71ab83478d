"""Admission: a chain of small named plugins that may change or refuse a write."""
