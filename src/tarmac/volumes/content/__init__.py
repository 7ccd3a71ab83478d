"""Contents of projected volumes: pure functions of objects."""
