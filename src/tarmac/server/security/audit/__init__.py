"""The audit log: its lines, and the file they are written to."""
