"""Reconciles Services: their EndpointSlices and Endpoints, and warnings about unsupported types."""
