"""What the composition roots promise."""
