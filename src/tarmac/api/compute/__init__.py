"""compute.datumapis.com: Workload, WorkloadDeployment, Instance, InstanceType, MachineImage."""
