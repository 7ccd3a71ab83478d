"""Tokens that the server issues: of service accounts, of joining nodes and of the registry."""
