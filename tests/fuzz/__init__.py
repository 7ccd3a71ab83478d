"""Random input: the server may reject it, never fail on it."""
