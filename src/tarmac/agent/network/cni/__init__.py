"""CNI plugin: the runtime runs an executable for a pod's interfaces, which relays the request to the agent's socket."""
