"""Sessions in simulated instances: logs, the shell, pages and consoles."""
