"""Deletion of local disks on the node: the disk image first, then the volume object."""
