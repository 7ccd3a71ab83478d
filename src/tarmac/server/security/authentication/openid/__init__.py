"""OpenID Connect authentication: issuers, their keys, their tokens, and the mapping of claims to users."""
