"""Virtual machines in the node's API: consoles, displays, power buttons, and recordings of who was there."""
