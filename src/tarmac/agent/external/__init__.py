"""The node's part in external services: it carries out what is decided about it, and carries addresses."""
