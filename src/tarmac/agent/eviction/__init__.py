"""Making room before the machine runs out of it: signals, thresholds, and which pod goes first."""
