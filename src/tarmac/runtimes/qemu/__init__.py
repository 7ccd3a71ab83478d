"""Virtual machines by QEMU, one process for each. `driver` is the runtime, and what it needs of others is in `needs`.

Split by concern, and pure where that is possible:

- `machine`: what a process is made from, as data; `commandline` turns it into arguments
- `cage`: what the process is kept in; `process` starts one, finds it again and ends it; `launching` opens what it has
- `records`: what is kept on the node; `sandboxes` and `machines` are what there is, by it
- `processors`: how many a guest has, more of them while it runs
- `life`: one machine that runs; `endings`: how it ended
- `qmp`: messages of QEMU's monitor; `monitor` speaks it; `sockets` knows who listens
- `serial`: the serial port, followed into the log, and the way to it for keys; `reaching`: consoles, displays, buttons
- `serials`: how a guest tells its disks apart; `volumes`: files as disks, written by `iso`
- `seed`: the documents that cloud-init reads; `seeding`: what they say of a pod
- `firmware`: what starts machines by UEFI
- `images`: what a file must be before QEMU's own tools see it
- `accelerator`: whether machines run here, and with what
"""
