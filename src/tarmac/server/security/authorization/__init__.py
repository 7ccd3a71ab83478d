"""Authorization: RBAC, the rights of nodes, and the default roles."""
