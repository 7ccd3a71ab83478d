"""Probes of UDP ports between nodes: messages, and real packets between namespaces."""
