"""Public addresses end to end, on real nodes with clients on an outside segment."""
