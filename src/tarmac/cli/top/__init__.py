"""`tarmac top`: what cities, nodes, workloads and instances use."""
