"""Local disks for claims, and protection of volumes and claims in use."""
