"""Lifecycle of nodes: heartbeats, taints, and eviction of pods from lost nodes."""
