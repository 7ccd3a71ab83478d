"""The node agent: runs the pods bound to its node and reports their status."""
