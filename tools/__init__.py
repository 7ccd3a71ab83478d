"""Set-up of the project's own tables and of third-party parts, run by the Makefile; nothing here ships with Tarmac."""
