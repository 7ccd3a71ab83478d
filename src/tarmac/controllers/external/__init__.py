"""External services: claims and their addresses; who may use them, and which nodes carry them."""
