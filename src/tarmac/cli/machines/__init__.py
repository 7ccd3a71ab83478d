"""`tarmac console`, `tarmac vnc` and `tarmac machine`: into virtual machines, from a terminal or a browser."""
