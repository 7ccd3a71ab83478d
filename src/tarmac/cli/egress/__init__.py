"""`tarmac egress check`: a connection from each source of an ExternalService, and as whom the outside sees it."""
