"""Files of operating systems: what is looked at before QEMU's own tools see one."""
