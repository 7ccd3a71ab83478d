"""State that survives kill -9."""
