"""Sizing providers: what is believed, run and merged."""
