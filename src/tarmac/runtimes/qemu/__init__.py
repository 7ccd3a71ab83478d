"""Virtual machines run by QEMU, one process each. `qemuruntime` implements the runtime, `dependencies` its protocols.

Split by concern, and pure where that is possible:

- `machine`: the input of a QEMU process, as data; `commandline` turns it into arguments
- `jail`: the jail of the process; `process` starts, finds and kills it; `launching` opens the files it inherits
- `records`: the state on disk; `sandboxes` and `machineregistry` hold it in memory
- `guestcpus`: the CPU count of a guest, and CPU hot-plug
- `supervisor`: supervises one running machine; `endings`: exit codes and reasons
- `qmp`: messages of the QEMU monitor; `monitor`: its client; `sockets`: connections that verify the peer's user
- `serial`: the serial port, copied into the log, and its keyboard pipe; `access`: consoles, displays, power actions
- `diskserials`: serial numbers of disks; `filedisks`: files as disks, written by `iso`
- `seed`: the documents that cloud-init reads; `seeding`: builds them from a pod
- `firmware`: UEFI firmware and its variables
- `images`: checks on image files before QEMU's own tools see them
- `accelerator`: probes for KVM and TCG by booting a kernel
"""
