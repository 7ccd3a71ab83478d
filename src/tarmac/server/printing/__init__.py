"""Representations of a response: the object itself, a table for people, or its metadata alone; as JSON or YAML."""
