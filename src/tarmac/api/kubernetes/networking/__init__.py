"""Ingress and IngressClass of `networking.k8s.io`."""
