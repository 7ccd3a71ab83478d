"""The core group: pods, services, nodes, volumes and related kinds."""
