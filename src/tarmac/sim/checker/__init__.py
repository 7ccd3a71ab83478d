"""Checks the history of a simulated cluster: safety at every change, convergence at the end."""
