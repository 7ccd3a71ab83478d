"""The node's certificates: asked for, kept in files nobody else may read, and renewed long before they end."""
