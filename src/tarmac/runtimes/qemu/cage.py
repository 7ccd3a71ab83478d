"""What a machine's process is kept in: a command around QEMU's, made of the tools that every Debian has.

The process starts as root and gives everything up in this order, each step by replacing itself, so it is one process
with one id from its first moment:

1. it joins the pod's cgroup, in every tree there is, so that nothing it does later is on the node's account
2. it has a network, an ipc, a uts and a mount namespace of its own; the network has no interface that is up
3. its root is a small file system in memory with `/usr` (read-only), four devices at most, `/proc` without the
   processes of others, and as `/run` a folder of its own
4. it writes down its id, becomes a user that nobody else is, without groups, capabilities or a way to get any

What it works with, disks, taps and kernels, it has as open files. QEMU adds a filter of system calls of its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

_END = "--"
KVM: Final = "/dev/kvm"

# Positional: where to write the process's id, its root, its /run, its serial log, who to be, the group that may open
# /dev/kvm (empty: it is not needed), the oom score; then files that a process's id is written to, `--`, the command.
_SCRIPT: Final = """
pid=$1 root=$2 run=$3 serial=$4 user=$5 kvm=$6 score=$7
shift 7
while [ "$1" != -- ]; do echo $$ > "$1"; shift; done
shift
ulimit -c 0
echo "$score" > /proc/self/oom_score_adj || :
mount -t tmpfs -o mode=0755,size=256k,nr_inodes=64,nosuid,noexec tmpfs "$root"
mkdir "$root/usr" "$root/dev" "$root/proc" "$root/run"
ln -s usr/bin usr/sbin usr/lib usr/lib64 "$root"
bind() { mount --bind "$1" "$root$2"; mount -o "remount,bind,$3" "$root$2"; }
bind /usr /usr ro,nosuid,nodev
for device in null urandom ${kvm:+kvm}; do
    : > "$root/dev/$device"
    bind "/dev/$device" "/dev/$device" nosuid,noexec
done
mount -t proc -o nosuid,nodev,noexec,hidepid=2 proc "$root/proc"
bind "$run" /run nosuid,nodev,noexec
: >> "$root/run/serial.raw"
bind "$serial" /run/serial.raw nosuid,nodev,noexec
echo $$ > "$pid"
if [ "$kvm" ]; then groups="--groups=$kvm"; else groups=--clear-groups; fi
exec chroot "$root" setpriv --reuid="$user" --regid="$user" "$groups" --inh-caps=-all --ambient-caps=-all \\
    --bounding-set=-all --no-new-privs "$@"
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cage:
    """Where a process is kept, and as whom. `folder` is the attempt's, which has an empty `root` and its `run`."""

    folder: Path
    serial: Path
    user: int
    entrances: Sequence[Path]
    oom_score_adj: int = 0
    kvm_group: int | None = None

    @property
    def pid_file(self) -> Path:
        """Written by the process before it becomes somebody else."""
        return self.folder / "pid"

    def around(self, command: Sequence[str]) -> list[str]:
        """The command that does all this and becomes the other one, as nobody's child."""
        group = "" if self.kvm_group is None else str(self.kvm_group)
        folder = self.folder
        where = map(str, (self.pid_file, folder / "root", folder / "run", self.serial, self.user))
        unshare = ("unshare", "--net", "--ipc", "--uts", "--mount", "--propagation", "private", _END)
        shell = ("sh", "-euc", _SCRIPT, "machine", *where, group, str(self.oom_score_adj))
        return ["setsid", "--fork", *unshare, *shell, *map(str, self.entrances), _END, *command]
