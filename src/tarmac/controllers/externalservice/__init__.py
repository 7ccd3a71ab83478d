"""ExternalService: says so while nothing carries one out."""
