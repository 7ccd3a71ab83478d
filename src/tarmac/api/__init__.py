"""The kinds Tarmac serves, each declared once: schema, defaults, validation, columns, discovery. Pure."""
