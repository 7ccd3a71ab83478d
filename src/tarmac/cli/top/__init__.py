"""`tarmac top`: resource usage of cities, nodes, workloads and instances."""
