"""Networks on one node: links, addresses, tunnels, policies and services, from plain descriptions."""
