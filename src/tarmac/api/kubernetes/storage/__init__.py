"""Kinds of `storage.k8s.io` that volume drivers use. Tarmac stores them; no node runs a driver."""
