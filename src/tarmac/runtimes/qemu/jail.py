"""The jail of a machine's process: a command that wraps QEMU's, made of tools that every Debian has.

The process starts as root and drops privileges in this order. Each step replaces the program by exec, so it keeps
one process id from start to end:

1. it joins the pod's cgroup, in every hierarchy, so that none of its later usage is accounted to the node
2. it enters network, ipc, uts and mount namespaces of its own; the network has no interface that is up
3. its root is a small tmpfs with `/usr` (read-only), at most three devices, `/proc` that hides other users' processes,
   and a directory of its own as `/run`
4. it writes its process id and becomes a unique user, without groups, capabilities or a way to regain any

Disks, taps and kernels are open files that it inherits. QEMU adds a seccomp filter of its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

_END = "--"
KVM: Final = "/dev/kvm"

# Positional: the pid file, the root, its /run, its serial log, the user, the group that may open /dev/kvm (or empty
# without KVM), the OOM score; then the cgroup files to write the process id to, `--`, the command.
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
class Jail:
    """The jail of one process. `folder` is the attempt's, with an empty `root` and its `run`."""

    folder: Path
    serial: Path
    user: int
    entrances: Sequence[Path]
    oom_score_adj: int = 0
    kvm_group: int | None = None

    @property
    def pid_file(self) -> Path:
        """Written by the process before it changes its user."""
        return self.folder / "pid"

    def wrap(self, command: Sequence[str]) -> list[str]:
        """Return the command that sets up the jail and becomes `command`, detached from the agent."""
        group = "" if self.kvm_group is None else str(self.kvm_group)
        folder = self.folder
        where = map(str, (self.pid_file, folder / "root", folder / "run", self.serial, self.user))
        unshare = ("unshare", "--net", "--ipc", "--uts", "--mount", "--propagation", "private", _END)
        shell = ("sh", "-euc", _SCRIPT, "machine", *where, group, str(self.oom_score_adj))
        return ["setsid", "--fork", *unshare, *shell, *map(str, self.entrances), _END, *command]
