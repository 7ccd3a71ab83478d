"""Text output: pure functions from results to text that fits 100 columns."""
