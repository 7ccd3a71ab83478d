"""The environment of containers: variables, name resolution, hosts file."""
