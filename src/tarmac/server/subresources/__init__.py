"""Subresources: narrow doors into an object (status, scale, binding, eviction, …), each with rules of its own."""
