"""Consoles and displays with several sessions at once."""
