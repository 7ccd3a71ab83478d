"""Subresources: endpoints for a part of an object (status, scale, binding, eviction, …), each with its own rules."""
