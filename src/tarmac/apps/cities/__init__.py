"""Cities made of real parts: each a host of its own on this machine, with a containerd and an agent."""
