"""Service → EndpointSlices, and what a Service asks for that is not offered."""
