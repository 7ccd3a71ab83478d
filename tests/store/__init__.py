"""The store's conformance suite, and what only one driver can show."""
