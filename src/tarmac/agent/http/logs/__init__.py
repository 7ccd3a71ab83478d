"""Container logs, read from the files that the runtime writes."""
