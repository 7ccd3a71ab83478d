"""Network and what becomes of it in each place: bindings, contexts, subnets; and a default Network everywhere."""
