"""The way to nodes: tunnels that they open, addresses that they have, and requests handed on by either."""
