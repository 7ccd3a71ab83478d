"""The planet in a process: virtual time, simulated nodes, seeded faults, and a checker of everything that happens."""
