"""What the agent is told: flags, and a KubeletConfiguration file that is read strictly."""
