"""The core group: pods, services, nodes, volumes and what belongs to them."""
