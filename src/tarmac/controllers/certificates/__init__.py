"""Certificates for nodes: approves the requests nodes may make, signs what is approved, removes what is old."""
