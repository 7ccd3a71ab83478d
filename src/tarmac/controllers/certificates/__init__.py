"""Certificates of nodes: approves permitted requests, signs approved ones, removes old ones."""
