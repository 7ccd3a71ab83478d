"""External services end to end, on real nodes with a segment outside."""
