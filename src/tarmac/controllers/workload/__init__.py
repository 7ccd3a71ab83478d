"""Reconciles each Workload: one WorkloadDeployment per placement and city, and their state back into its status."""
