"""Endpoints that somebody wrote → EndpointSlices."""
