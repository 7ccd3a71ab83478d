"""The node's own HTTP API, as kubelets have it: logs, commands, forwarded ports, figures; and the way to it."""
