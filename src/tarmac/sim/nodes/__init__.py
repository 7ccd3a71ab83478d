"""Simulated nodes: they exist only in this process, and their pods run no processes."""
