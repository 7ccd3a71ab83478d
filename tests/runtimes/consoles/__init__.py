"""Consoles and displays for several people at once."""
