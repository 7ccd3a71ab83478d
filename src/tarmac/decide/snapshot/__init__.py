"""Snapshots of the cluster's objects at one moment, and the reads that explanations and plans share."""
