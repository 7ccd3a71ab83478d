"""External services: whose addresses they use, which pods may use them, and which node carries each address. Pure."""
