"""Files about a machine, to explain a failure of a trial that cannot be repeated at once."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from tools.gputrial.machine import LOGS, run

_COMMANDS: Final = (
    "uname -a", "cat /etc/os-release", "id", "nproc", "free -m", "df -h / /var /tmp /run", "ls -la /dev/kvm",
    "cat /sys/fs/cgroup/cgroup.controllers", "cat /sys/fs/cgroup/cgroup.subtree_control", "cat /proc/self/cgroup",
    "nvidia-smi", "nvidia-smi -L", "ls -la /dev/nvidia*", "cat /proc/driver/nvidia/version",
    "cat /proc/driver/nvidia/gpus/*/information", "ls -la /usr/local/nvidia /usr/local/nvidia/lib64",
    "ldconfig -p | grep -E 'libcuda|nvidia-ml|cublas'", "ls -d /opt/*/.venv/lib/python3*/site-packages/nvidia/*/lib",
    "/usr/bin/python3 --version", "which -a python3 nft dpkg nsenter mkfs.ext4", "nft --version",
    "dpkg -l python3 nftables e2fsprogs util-linux libseccomp2", "echo $PATH; echo $LD_LIBRARY_PATH", "mount",
    "ulimit -a", "cat /proc/1/comm", "cat /proc/net/dev",
    "zcat /proc/config.gz | grep -E 'OVERLAY|NF_TABLES|VETH|VXLAN|CGROUP|BPF'",
)  # fmt: skip
_MAX_BYTES: Final = 12 << 20


def survey(folder: Path) -> None:
    """Write the output of these commands. A missing command is a finding, not a failure."""
    folder.mkdir(parents=True, exist_ok=True)
    with open(folder / "survey.txt", "w") as file:
        for command in _COMMANDS:
            done = run("sh", "-c", command, timeout=30)
            file.write(f"$ {command}\n{done.stdout}{done.stderr}\n")
            file.flush()


def keep_logs(folder: Path) -> None:
    """Copy the ends of the logs, and of the kernel's."""
    for log in LOGS:
        if log.exists():
            (folder / log.name).write_bytes(log.read_bytes()[-_MAX_BYTES:])
    (folder / "dmesg.txt").write_text("\n".join(run("sh", "-c", "dmesg").stdout.splitlines()[-400:]))
