"""The metadata service of instances, at 169.254.169.254 in each of their networks."""
