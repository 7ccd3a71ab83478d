"""Garbage collection: unused images, dead containers, old logs, and remains of removed pods."""
