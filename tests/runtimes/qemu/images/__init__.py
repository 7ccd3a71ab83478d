"""Images of machines: fetched, checked, converted, kept; and those that mean harm."""
