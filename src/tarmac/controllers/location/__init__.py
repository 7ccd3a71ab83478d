"""Status of Locations, from their nodes, and a finalizer while they are in use."""
