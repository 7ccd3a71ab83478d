"""Makes Debian 12 for virtual machines: packages by mmdebstrap, a few files of our own, one ext4, packed as qcow2.

It boots a kernel that lies beside it (`tools.machine_images`), whose modules it has; so it needs no boot loader, no
partitions and no initial filesystem of its own. Everything a machine differs in comes from cloud-init.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from pathlib import Path

from tools.debs import mirror
from tools.guestfiles import run_tool

_SIZE = "3G"  # as the catalogue says, so that a disk of the default size has nothing to grow
_PACKAGES = (
    "systemd-sysv", "systemd-resolved", "udev", "kmod", "dbus", "cloud-init", "cloud-guest-utils", "openssh-server",
    "sudo", "e2fsprogs", "iproute2", "iputils-ping", "netbase", "ca-certificates", "curl", "less",
)  # fmt: skip
# Where each of our files goes.
_FILES = {
    "tarmac.cfg": "etc/cloud/cloud.cfg.d/90_tarmac.cfg",
    "hotplug.rules": "etc/udev/rules.d/80-hotplug-cpu.rules",
    "sources.list": "etc/apt/sources.list",
}
# ifupdown comes with cloud-init; with two of them, waiting for the network never ends. The rest is work that a machine
# of an hour's life has no use for.
_MASKED = (
    "networking.service", "apt-daily.timer", "apt-daily-upgrade.timer", "dpkg-db-backup.timer", "e2scrub_all.timer",
    "e2scrub_reap.service", "fstrim.timer",
)  # fmt: skip
_ENABLED = ("systemd-networkd.service", "systemd-resolved.service", "ssh.service")
# Documents nobody reads in a machine; without them the image is half the size.
_LEFT_OUT = ("doc", "man", "info", "locale", "lintian", "bash-completion")


def write(target: Path, modules: Path, files: Path) -> None:
    """Make the image. Raises RuntimeError, which also says what is missing."""
    if os.geteuid() != 0:
        raise RuntimeError("Debian 12 for virtual machines can be made by root only")
    with tempfile.TemporaryDirectory(dir=target.parent) as folder:
        tree, disk = Path(folder) / "tree", Path(folder) / "disk"
        _bootstrap(tree)
        _adapt(tree, modules, files)
        options = "lazy_itable_init=1,lazy_journal_init=1,nodiscard"
        run_tool(
            "mkfs.ext4", "-q", "-F", "-m", "0", "-L", "debian-12", "-E", options, "-d", str(tree), str(disk), _SIZE
        )
        packed = ("-f", "raw", "-O", "qcow2", "-c", "-o", "compression_type=zstd")
        run_tool("qemu-img", "convert", *packed, str(disk), str(target))


def _bootstrap(tree: Path) -> None:
    options = ["--dpkgopt=force-unsafe-io", *(f"--dpkgopt=path-exclude=/usr/share/{each}/*" for each in _LEFT_OUT)]
    include = f"--include={','.join(_PACKAGES)}"
    run_tool(
        "mmdebstrap", "--quiet", "--mode=root", "--variant=minbase", *options, include, "bookworm", str(tree), mirror()
    )


def _adapt(tree: Path, modules: Path, files: Path) -> None:
    for name, place in _FILES.items():
        shutil.copy(files / name, tree / place)
    shutil.copytree(modules, tree / "usr" / "lib" / "modules", dirs_exist_ok=True)
    for version in os.listdir(modules):
        _inside(tree, "depmod", version)
    _inside(tree, "systemctl", "--quiet", "enable", *_ENABLED)
    _inside(tree, "systemctl", "--quiet", "mask", *_MASKED)
    # What tells machines apart is made at first boot.
    for each in (tree / "etc" / "ssh").glob("ssh_host_*"):
        each.unlink()
    (tree / "etc" / "machine-id").write_text("")
    (tree / "etc" / "hostname").unlink(missing_ok=True)
    resolvers = tree / "etc" / "resolv.conf"
    resolvers.unlink(missing_ok=True)
    resolvers.symlink_to("../run/systemd/resolve/stub-resolv.conf")


def _inside(tree: Path, *command: str) -> None:
    done = subprocess.run(["chroot", str(tree), *command], check=False, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"{command[0]} failed in the new system: {done.stderr.strip()[-500:]}")
