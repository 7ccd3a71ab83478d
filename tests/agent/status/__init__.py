"""Statuses and how they are written."""
