"""Runtimes of pods: one interface, the drivers behind it, and the contract suite that all of them pass."""
