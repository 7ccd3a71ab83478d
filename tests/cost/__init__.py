"""What requests cost, and that nobody can make one that costs the others their turn."""
