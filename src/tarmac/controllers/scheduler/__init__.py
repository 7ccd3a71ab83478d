"""Both levels of scheduling: a Location for each WorkloadDeployment, a node for each Pod."""
