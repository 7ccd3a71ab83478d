"""Kinds of `resource.k8s.io`. Tarmac stores them; no node runs a driver, and the scheduler allocates no claim."""
