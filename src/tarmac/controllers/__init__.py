"""Thin loops that observe, decide, act and explain; one package each, all through the client."""
