"""Who is asking, and may they: certificates, tokens, RBAC, node authorization, audit, fairness, encryption at rest."""
