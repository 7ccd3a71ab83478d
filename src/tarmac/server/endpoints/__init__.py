"""Endpoints other than objects: discovery, OpenAPI, version, health, metrics."""
