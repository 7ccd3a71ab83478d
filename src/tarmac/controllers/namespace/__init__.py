"""Empties namespaces that are being deleted, says what is in the way, and lets them go."""
