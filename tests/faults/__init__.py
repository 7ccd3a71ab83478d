"""What survives kill -9."""
