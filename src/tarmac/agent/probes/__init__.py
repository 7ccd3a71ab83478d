"""Startup, liveness and readiness probes of containers."""
