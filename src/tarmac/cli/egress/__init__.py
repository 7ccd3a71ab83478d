"""`tarmac egress check`: tests a connection from each source of an ExternalService, and its external address."""
