"""Changing objects: patches, apply, and managers of fields."""
