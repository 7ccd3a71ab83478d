"""Converts a fetched and verified file to a raw disk: decompress, check, convert.

The checksum proves that the file is the one an administrator meant, not that it is harmless. So the agent itself reads
only the header of a qcow2, to reject one that would make its reader open other files; programs in a jail read the rest.
The format comes from the catalogue and is never probed: a probe trusts the content, and a text that looks like a disk
description makes QEMU's tools read any file that it names.
"""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import msgspec

from tarmac.runtimes.interface.errors import ImageMismatch, ImageRefused
from tarmac.runtimes.qemu.images.qcow2 import HEADER_BYTES, check_qcow2

_UNPACKERS: Final = {"gzip": ("gzip", "-dc"), "xz": ("xz", "-dc", "--no-sparse"), "zstd": ("zstd", "-dcq")}
_SLACK = 1 << 20
_SECTOR = 512
_OURS = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC

_encode = msgspec.json.Encoder().encode

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


@dataclass(frozen=True, slots=True)
class ExpectedFile:
    """The catalogue's description of the file."""

    format: str
    compression: str | None
    size: int  # maximum size of the disk


def check_raw(size: int, most: int) -> int:
    """Return the size of a raw disk, rounded up to whole sectors. Raises ImageMismatch."""
    if size > most:
        raise ImageMismatch(f"the disk has {size} bytes, and spec.size is {most}")
    if not size:
        raise ImageMismatch("the file is empty")
    return -(-size // _SECTOR) * _SECTOR


def write_raw(source: int, wanted: ExpectedFile, target: Path) -> None:
    """Write the disk in the file to `target` and sync it; blocks. Raises ImageRefused, OSError."""
    unpacked, jail = target.with_suffix(".unpacked"), target.with_suffix(".cage")
    for path in (unpacked, target):
        path.unlink(missing_ok=True)  # left by an interrupted attempt
    try:
        if wanted.compression is None:
            _convert(source, wanted, target, jail)
        else:
            with open(os.open(unpacked, _OURS, 0o600), "r+b", buffering=0) as plain:
                _unpack(source, wanted, plain.fileno(), jail)
                _convert(plain.fileno(), wanted, target, jail)
    except BaseException:
        target.unlink(missing_ok=True)
        raise
    finally:
        unpacked.unlink(missing_ok=True)
        if jail.exists():
            jail.rmdir()


def _unpack(source: int, wanted: ExpectedFile, target: int, jail: Path) -> None:
    program, most = _UNPACKERS[wanted.compression or ""], wanted.size + _SLACK
    os.lseek(source, 0, os.SEEK_SET)
    try:
        run_jailed(program, jail, most, (), source, target)
    except ImageRefused as error:
        # The size limit stops the program in the middle of a write: the file's size tells if that was the cause.
        if os.fstat(target).st_size >= most:
            raise ImageMismatch(f"unpacked, the file has more than {most} bytes; spec.size is {wanted.size}") from error
        raise ImageMismatch(f"the file cannot be unpacked: {error}") from error


def _convert(source: int, wanted: ExpectedFile, target: Path, jail: Path) -> None:
    if wanted.format == "qcow2":
        size = check_qcow2(os.pread(source, HEADER_BYTES, 0), wanted.size)
    else:
        size = check_raw(os.fstat(source).st_size, wanted.size)
    made = os.open(target, _OURS, 0o600)
    try:
        os.ftruncate(made, size)
        _open_to_cage(source, made)
        alone = {"backing": None} if wanted.format == "qcow2" else {}
        file = {"driver": "file", "filename": f"/proc/self/fd/{source}"}
        layer = {"driver": wanted.format, **alone, "file": file}
        target_options = f"driver=raw,file.driver=file,file.filename=/proc/self/fd/{made}"
        command = (
            "qemu-img",
            "convert",
            "-n",
            "--target-image-opts",
            f"json:{_encode(layer).decode()}",
            target_options,
        )
        run_jailed(command, jail, size, (source, made), None, None)
        os.fchown(made, 0, 0)
        os.fchmod(made, 0o444)
        os.fsync(made)
    finally:
        os.close(made)


def _open_to_cage(source: int, target: int) -> None:
    """Give the jailed user access: it opens both files again by /proc/self/fd, which checks their permissions."""
    os.fchown(target, USER, USER)
    if not os.fstat(source).st_mode & 0o004:
        os.fchmod(source, 0o444)


# Runs programs on untrusted files in a jail: decompressors, and QEMU's converter.
#
# Each program runs as a unique user, without capabilities or network, in a pid namespace of its own and a root that
# shows `/usr` and no other file of the host. It inherits its input and output as open files. Memory, file size and run
# time are limited; at the time limit it is killed with all its children.


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
            _, output = process.communicate(timeout=SECONDS)
        except subprocess.TimeoutExpired as error:
            raise ImageRefused(f"{command[0]} took more than {SECONDS} s") from error
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)  # its children die with it
    if process.returncode:
        # The output may quote the file; its last line is the one that an operator needs.
        last = output.decode(errors="replace").strip().splitlines()[-1:] or [f"it ended with {process.returncode}"]
        raise ImageRefused(f"{command[0]} failed: {last[0][:300]}")
