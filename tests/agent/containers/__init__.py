"""Translation of pods into requests to the runtime."""
