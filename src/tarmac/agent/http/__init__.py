"""The node's HTTP API, compatible with kubelet's: logs, exec, attach, port-forward, metrics; and tunnels to it."""
