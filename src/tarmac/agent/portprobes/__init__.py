"""Probes of the UDP ports between nodes that share no Network yet: messages, raw sockets, both ends."""
