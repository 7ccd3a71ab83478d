"""Public addresses end to end, on real nodes with clients on a segment outside."""
