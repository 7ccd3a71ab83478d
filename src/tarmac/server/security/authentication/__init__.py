"""Authentication: the user of a request, by certificate, token or impersonation."""
