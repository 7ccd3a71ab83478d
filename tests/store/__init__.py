"""The store's conformance suite, and tests of single drivers."""
