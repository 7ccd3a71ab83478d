"""The HTTP layer over real sockets."""
