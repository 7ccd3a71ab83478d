"""Every decision as a pure function from a snapshot to a verdict with reasons: no clock, randomness, I/O or log."""
