"""Sizing providers: validation, execution and merging of responses."""
