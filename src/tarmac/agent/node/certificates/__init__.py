"""The node's certificates: requested, stored in private files, and renewed long before they expire."""
