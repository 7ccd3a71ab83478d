"""The agent's part in external services."""
