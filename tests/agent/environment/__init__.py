"""What containers find around them."""
