"""Volumes of pods: disks, and files projected from objects of the API."""
