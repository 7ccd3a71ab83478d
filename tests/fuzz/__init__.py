"""Random input: the server may refuse it, never fail on it."""
