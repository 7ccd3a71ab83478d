"""WorkloadDeployment → its Instances and NetworkBindings, and their state back into the deployment."""
