"""The commands that need a server: their flags, help and completion. Their work is in the packages beside."""
