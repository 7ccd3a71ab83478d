"""The node's part in the end of a local disk: the image goes first, then the volume that stood for it."""
