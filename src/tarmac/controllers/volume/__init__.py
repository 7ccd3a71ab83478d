"""Keeps volumes and claims that are in use from disappearing under their users."""
