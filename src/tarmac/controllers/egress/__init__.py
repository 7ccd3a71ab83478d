"""External services: claims, their addresses, the namespaces that may use them, and the nodes that carry them."""
