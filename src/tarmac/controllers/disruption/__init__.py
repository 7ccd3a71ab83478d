"""Disruption budgets: the number of their pods that may be evicted."""
