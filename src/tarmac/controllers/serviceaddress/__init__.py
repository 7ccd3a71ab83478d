"""Writes the IPAddress of each cluster address, and the status of ServiceCIDRs."""
