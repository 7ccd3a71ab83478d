"""Plugins that check references to other objects, as far as they are known at the write."""
