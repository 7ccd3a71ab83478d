"""What `deploy/` has: configuration, alerts and dashboards, tried on a real Prometheus."""
