"""Rules of aggregated ClusterRoles."""
