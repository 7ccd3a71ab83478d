"""Plugins that keep users from gaining privileges: roles, certificates, revocations, recordings, creation."""
