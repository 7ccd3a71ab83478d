"""A simulated cluster in one process: virtual time, simulated nodes, seeded faults, and a checker of all changes."""
