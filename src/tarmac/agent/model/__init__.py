"""What every part of the agent speaks of: a pod, what the runtime has of it, what it is given, back-offs and waits."""
