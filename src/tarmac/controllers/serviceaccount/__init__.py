"""Default ServiceAccounts and the CA bundle of every namespace, and tokens in Secrets."""
