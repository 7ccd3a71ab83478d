"""Everything the server answers that is not an object: discovery, OpenAPI, version, health, metrics."""
