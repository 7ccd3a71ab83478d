"""What an instance can ask about itself, at 169.254.169.254 in each of its networks."""
