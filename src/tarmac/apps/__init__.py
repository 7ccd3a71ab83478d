"""Composition roots: the only place where stores, servers, controllers and transports are wired together."""
