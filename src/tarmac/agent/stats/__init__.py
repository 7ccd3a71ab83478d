"""What the node and its pods use, gathered when somebody asks and kept for a few seconds."""
