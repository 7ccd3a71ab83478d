"""Deletes what its owners have left behind: owner references, in all three ways an owner can go."""
