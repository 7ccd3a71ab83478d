"""Watches the history of a world and says what should never have happened, or should have happened by now."""
