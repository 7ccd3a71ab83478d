"""Disruption budgets: how many of their pods may be taken away."""
