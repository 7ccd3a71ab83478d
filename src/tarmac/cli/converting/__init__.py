"""`tarmac convert`: Deployments and their like as Workloads, with notes on fields that have no equivalent."""
