"""The agent's configuration: flags, and a strictly parsed KubeletConfiguration file."""
