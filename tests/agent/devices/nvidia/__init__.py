"""The device plugin for NVIDIA GPUs, on a fake driver."""
