"""The kinds Tarmac serves, each declared once: schema, defaults, validation, columns, discovery. Pure; no I/O but its own tables."""
