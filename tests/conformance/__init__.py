"""Kubernetes' conformance specs of an API server, run against simulated nodes with stock controllers."""
