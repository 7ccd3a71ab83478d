"""The node's part in public addresses: applies them to the datapath, owns those of its segments, and reports it."""
