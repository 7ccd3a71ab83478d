"""The API server as clients see it, without sockets."""
