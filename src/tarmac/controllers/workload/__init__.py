"""Workload → one WorkloadDeployment per placement and city, and their state back into the Workload."""
