"""Single tries of probes, over real sockets."""
