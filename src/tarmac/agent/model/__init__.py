"""Data types shared by all parts of the agent: pods, their runtime state, allotments, back-offs and waits."""
