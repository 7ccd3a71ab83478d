"""Everything there is at one moment, and what explanations and plans both read from it."""
