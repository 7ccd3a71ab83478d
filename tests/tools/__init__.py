"""What set-up does."""
