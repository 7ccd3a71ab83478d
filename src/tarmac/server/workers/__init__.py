"""Several processes as one server: links between them, streams to nodes through any of them, merged metrics."""
