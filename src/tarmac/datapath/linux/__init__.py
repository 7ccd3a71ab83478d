"""Networks of a Linux node, made with netlink, network namespaces and nftables."""
