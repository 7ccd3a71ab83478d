"""QoS classes of shared resources: a node's offers, the places pods take, and the kernel parameters of a class."""
