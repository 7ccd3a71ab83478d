"""ResourceQuota: counts the usage of namespaces incrementally, and rejects objects above the limit."""
