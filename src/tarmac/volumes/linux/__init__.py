"""Volumes by the Linux kernel: mounts, loop devices, and paths that cannot be led astray."""
