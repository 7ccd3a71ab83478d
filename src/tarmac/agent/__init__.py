"""The node: what is bound to it runs, and what runs is reported."""
