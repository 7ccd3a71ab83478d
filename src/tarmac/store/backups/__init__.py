"""Backups of a store: one file in one format, independent of the driver.

`file` writes and reads it, `storecopies` copies a store's contents at one revision, `restoring` makes a store from it.
"""
