"""The parts of a node, put together."""
