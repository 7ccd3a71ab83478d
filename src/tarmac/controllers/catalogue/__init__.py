"""InstanceTypes and MachineImages: built-in catalogues, life cycles, and that nothing goes while it is used."""
