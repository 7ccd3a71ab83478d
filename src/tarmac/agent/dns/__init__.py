"""Node-local DNS: resolves Services and instances for the node's pods, forwards other names to its resolvers."""
