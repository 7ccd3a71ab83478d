"""Location → its health and size, from its nodes; and its stay while it is in use."""
