"""Virtual machines in the node's API: consoles, displays, power actions and session recordings."""
