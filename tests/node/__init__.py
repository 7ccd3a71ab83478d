"""Whole cities of real parts, as `tarmac up` makes them, seen through kubectl."""
