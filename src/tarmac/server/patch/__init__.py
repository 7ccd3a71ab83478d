"""Changing objects: JSON patch, merge patch, strategic merge, server-side apply, and who manages which field.

Everything here is a pure function over decoded JSON and `Schema` nodes; nothing reads a clock or the store, and no
input is ever changed in place unless its docstring says so. `engine` is the door the rest of the server uses.
"""
