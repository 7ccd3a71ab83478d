"""InstanceTypes: the built-in catalogue, their life cycle, and that none goes while it is used."""
