"""The registry beside `tarmac up`: who may push and pull, and what becomes of it."""
