"""The HTTP layer over real sockets."""  # noqa: A005
