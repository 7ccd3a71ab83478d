"""Operating system images: fetching, verification and conversion, with checks before QEMU's own tools see a file."""
