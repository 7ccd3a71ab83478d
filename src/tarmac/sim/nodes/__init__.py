"""Nodes that exist only in this process, and pods that only pretend to run."""
