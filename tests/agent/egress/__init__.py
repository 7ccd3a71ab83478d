"""The agent's side of ExternalServices."""
