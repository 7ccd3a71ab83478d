"""Empties terminating namespaces, reports obstacles, and releases them."""
