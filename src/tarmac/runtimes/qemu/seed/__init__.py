"""The seed: documents that tell cloud-init, and our own small images, what machine this is (NoCloud)."""
