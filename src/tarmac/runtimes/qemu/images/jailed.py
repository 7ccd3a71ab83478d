"""Runs programs on untrusted files in a jail: decompressors, and QEMU's converter.

Each program runs as a unique user, without capabilities or network, in a pid namespace of its own and a root that shows
`/usr` and no other file of the host. It inherits its input and output as open files. Memory, file size and run time are
limited; at the time limit it is killed with all its children.
"""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from tarmac.runtimes.interface.errors import ImageRefused

USER: Final = 0x6FFFFFFF
"""User id of the program; those of machines are higher."""

SECONDS: Final = 600
_MEMORY = 1 << 30

# Positional: an empty directory for its root, the user, limits of memory and of file size, then the command.
_SCRIPT: Final = """
root=$1 user=$2 memory=$3 size=$4
shift 4
mount -t tmpfs -o mode=0755,size=64k,nr_inodes=32,nosuid,noexec tmpfs "$root"
mkdir "$root/usr" "$root/dev" "$root/proc"
ln -s usr/bin usr/sbin usr/lib usr/lib64 "$root"
mount --bind /usr "$root/usr"
mount -o remount,bind,ro,nosuid,nodev "$root/usr"
: > "$root/dev/null"
mount --bind /dev/null "$root/dev/null"
mount -t proc -o nosuid,nodev,noexec proc "$root/proc"
exec chroot "$root" setpriv --reuid="$user" --regid="$user" --clear-groups --inh-caps=-all --ambient-caps=-all \\
    --bounding-set=-all --no-new-privs prlimit --as="$memory" --fsize="$size" --core=0 "$@"
"""
_UNSHARE = ("--net", "--ipc", "--uts", "--mount", "--propagation", "private", "--pid", "--fork", "--kill-child")


def run_jailed(
    command: Sequence[str], root: Path, most: int, files: Sequence[int], source: int | None, target: int | None
) -> None:
    """Run a command to its end; blocks. `source`, `target`: its standard input and output. Raises ImageRefused."""
    shell = ("sh", "-euc", _SCRIPT, "cage", str(root), str(USER), str(_MEMORY), str(most))
    root.mkdir(exist_ok=True)
    process = subprocess.Popen(
        # If the agent is killed, the program stays behind: `timeout` ends it, a little later than the agent would have.
        ["timeout", "--signal=KILL", str(SECONDS + 5), "unshare", *_UNSHARE, "--", *shell, *command],
        stdin=subprocess.DEVNULL if source is None else source,
        stdout=subprocess.DEVNULL if target is None else target,
        stderr=subprocess.PIPE,
        pass_fds=files,
        env={"PATH": "/usr/sbin:/usr/bin", "LC_ALL": "C"},
        start_new_session=True,
    )
    with process:  # closes its standard error, and waits for it
        try:
            _, said = process.communicate(timeout=SECONDS)
        except subprocess.TimeoutExpired as error:
            raise ImageRefused(f"{command[0]} took more than {SECONDS} s") from error
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)  # its children die with it
    if process.returncode:
        # The output may quote the file; its last line is the one that an operator needs.
        last = said.decode(errors="replace").strip().splitlines()[-1:] or [f"it ended with {process.returncode}"]
        raise ImageRefused(f"{command[0]} failed: {last[0][:300]}")
