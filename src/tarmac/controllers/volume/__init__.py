"""Local disks for claims, and no volume or claim disappears under its users."""
