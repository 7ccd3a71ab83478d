"""Addresses: of Services, of Networks, of the platform, and ranges that pools offer."""
