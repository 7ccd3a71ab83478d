"""`tarmac ingress check`: tests connections from nodes to the public addresses of a Service or Workload."""
