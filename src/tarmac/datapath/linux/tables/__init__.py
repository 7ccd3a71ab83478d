"""The nftables tables of a router namespace, one for each concern, as text. Pure."""
