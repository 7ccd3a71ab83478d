"""The pod loop, over a runtime in memory and the real server, in virtual time."""
