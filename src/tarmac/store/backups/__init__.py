"""Backups of a store: one file, in one format, whichever driver keeps the objects.

`file` writes and reads it, `sources` copies what a store has at one revision, `restoring` makes a store of it.
"""
