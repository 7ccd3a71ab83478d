"""What pods mount: disks, and files projected from objects of the API."""
