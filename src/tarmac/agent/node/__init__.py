"""The node's representation in the cluster: its Node object, its Lease, its certificates."""
