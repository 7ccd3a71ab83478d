"""X.509: the authority, the certificates it signs, their renewal, rotation and revocation."""
