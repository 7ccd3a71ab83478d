"""The contract of every runtime, and behaviour that only real runtimes show."""
