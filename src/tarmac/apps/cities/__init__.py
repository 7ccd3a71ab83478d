"""Cities of real parts: each a network host on this machine, with a containerd and an agent."""
