"""`tarmac console`, `tarmac vnc` and `tarmac machine`: access to virtual machines from a terminal or a browser."""
