"""The contract that every runtime keeps, and what only real ones can show."""
