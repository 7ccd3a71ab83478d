"""Mirrors Endpoints written by users into EndpointSlices."""
