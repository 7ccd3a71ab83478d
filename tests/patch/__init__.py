"""Changing objects: patches, apply, and who manages what."""
