"""Service: defaults, validation, and the pure part of giving it addresses and ports."""
