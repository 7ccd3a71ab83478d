"""The life of nodes: heartbeats, taints, and what becomes of the pods of a node that is lost."""
