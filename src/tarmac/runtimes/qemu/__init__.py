"""Virtual machines by QEMU, one process for each: its command line, its monitor, and what the guest is told at boot.

Split by concern, and pure where that is possible:

- `machine`: what a process is made from, as data; `commandline` turns it into arguments
- `serials`: how a guest tells its disks apart
- `seed`: the documents that cloud-init reads
- `images`: what a file must be before QEMU's own tools see it
- `qmp`: messages of QEMU's monitor; `monitor` speaks it over a socket

Nothing here starts a process yet, so no node offers the class `vm`.
"""
