"""Networks and their derived objects at each Location (bindings, contexts, subnets), and default Networks."""
