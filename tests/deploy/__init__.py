"""The files of `deploy/`: configuration, alerts and dashboards, tried on a real Prometheus."""
