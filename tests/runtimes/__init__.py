"""The contract of every runtime, and behaviour of real runtimes only."""
