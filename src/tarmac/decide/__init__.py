"""Every decision as a pure function from a snapshot to a verdict with reasons: no clock, no dice, no I/O, no log."""
