"""Node-local DNS: Services and instances for the pods of this node, everything else from the node's own resolvers."""
