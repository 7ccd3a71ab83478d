"""Service: defaults, validation, and the pure part of allocating addresses and ports."""
