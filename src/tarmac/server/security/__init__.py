"""Authentication and authorization: certificates, tokens, RBAC, nodes; audit, fairness and encryption at rest."""
