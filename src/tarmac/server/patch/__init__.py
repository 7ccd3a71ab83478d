"""Changing objects: JSON patch, merge patch, strategic merge, server-side apply, and the managers of fields.

Everything here is a pure function over decoded JSON and `Schema` nodes; nothing reads a clock or the store, and no
input is changed in place unless the docstring says so. The rest of the server calls `engine`.
"""
