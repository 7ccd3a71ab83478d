"""Composition roots: the only package where stores, servers, controllers and transports are wired together."""
