"""The client libraries users bring."""
