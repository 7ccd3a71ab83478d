"""Egress through ExternalServices: address claims, source pods, and the gateway of each address. Pure functions."""
