"""Resource usage of the node and its pods, collected on request and cached for a few seconds."""
