"""Connections to nodes: tunnels that they open, their addresses, and requests forwarded over either."""
