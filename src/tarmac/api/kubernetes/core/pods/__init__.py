"""Pod: defaults, validation on create and update, quality of service, warnings and columns."""
