"""The pod loop with a runtime in memory and the real server, in virtual time."""
