"""The scheduling gate `Quota` of Instances, removed for as many as fit into the quotas of their namespace."""
