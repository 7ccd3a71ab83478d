"""Volumes on Linux: mounts, loop devices, and safe path resolution."""
