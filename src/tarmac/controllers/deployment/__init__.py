"""Reconciles each WorkloadDeployment: its Instances and NetworkBindings, and their state back into its status."""
