"""Images of machines: fetched, checked, converted, kept; and malicious ones."""
