"""The node as the cluster sees it: its Node object, its Lease, its certificates."""
