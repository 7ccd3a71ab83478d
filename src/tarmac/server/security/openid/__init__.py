"""People known by an OpenID Connect issuer: its tokens, its keys, and whom their claims make."""
