"""From pods to what the runtime is asked for."""
