"""Single attempts of probes over real sockets."""
