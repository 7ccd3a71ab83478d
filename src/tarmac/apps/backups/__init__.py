"""Backups of a server's store and keys: made while it runs, verified, and restored while it is stopped."""
