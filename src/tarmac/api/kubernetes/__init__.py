"""Kubernetes' own kinds: schemas from generated tables, rules and columns written here."""
