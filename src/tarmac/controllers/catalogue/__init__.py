"""InstanceTypes and MachineImages: built-in catalogues, status, and finalizers while entries are in use."""
