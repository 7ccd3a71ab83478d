"""Eviction before the node runs out of resources: signals, thresholds, and the ranking of pods."""
