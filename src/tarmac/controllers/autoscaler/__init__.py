"""Scales each city to the number of instances that its metrics require, only through `/scale`."""
