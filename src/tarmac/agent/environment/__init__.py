"""What a container finds around it: variables, name resolution, host files."""
