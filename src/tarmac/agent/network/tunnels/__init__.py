"""Probes of the tunnels to other nodes: choice of peers, judgement of losses, and sockets inside each network."""
