"""How a runtime asks for a pod's interfaces: it runs an executable, which relays the question to the agent's socket."""
