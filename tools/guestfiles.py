"""Writes the files of guests, the same bytes every time: an initial filesystem (cpio) and a disk (ext4).

Both take the entries that layers of container images are made of. A hard link is written as a symbolic one. The disk is
filled by e2fsprogs' own shell from a list of commands, in the order of the entries: `mkfs -d` would take over times and
an order that differ from machine to machine.
"""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path, PurePosixPath

from tools.oci import Entry

_FOLDER, _FILE, _LINK = 0o040000, 0o100000, 0o120000
_NO_TIME = {"E2FSPROGS_FAKE_TIME": "1"}  # zero would mean: now
_UUID = "7461726d-6163-4000-8000-00000000{:04x}"
_SBIN = "/usr/sbin:/sbin"


def write_cpio(entries: Iterable[Entry], target: Path) -> None:
    """An initial filesystem in the format that Linux unpacks; not packed any further, which would cost each boot."""
    with target.open("wb") as output:
        for number, entry in enumerate(entries, 1):
            output.write(_cpio_entry(number, entry))
        output.write(_cpio_record(0, "TRAILER!!!", 0, b""))


def _cpio_entry(number: int, entry: Entry) -> bytes:
    link = link_target(entry)
    if link:
        return _cpio_record(number, entry.path, _LINK | 0o777, link.encode())
    if entry.content is None:
        return _cpio_record(number, entry.path, _FOLDER | entry.mode, b"")
    return _cpio_record(number, entry.path, _FILE | entry.mode, entry.content)


def _cpio_record(number: int, path: str, mode: int, content: bytes) -> bytes:
    name = path.encode() + b"\0"
    fields = (number, mode, 0, 0, 1, 0, len(content), 0, 0, 0, 0, len(name), 0)
    head = b"070701" + b"".join(b"%08x" % field for field in fields)
    return _padded(head + name) + _padded(content)


def _padded(data: bytes) -> bytes:
    return data + bytes(-len(data) % 4)


def write_ext4(entries: Iterable[Entry], target: Path, size: int, label: str) -> None:
    """A disk without partitions. Raises RuntimeError when a tool fails."""
    with target.open("wb") as disk:
        disk.truncate(size)
    extended = f"hash_seed={_UUID.format(2)},lazy_itable_init=1,lazy_journal_init=1,nodiscard,root_owner=0:0"
    run_tool(
        "mkfs.ext4",
        "-q",
        "-F",
        "-b",
        "4096",
        "-m",
        "0",
        "-U",
        _UUID.format(1),
        "-L",
        label,
        "-E",
        extended,
        str(target),
    )
    with tempfile.TemporaryDirectory() as folder:
        script = Path(folder) / "commands"
        script.write_text("".join(f"{line}\n" for line in _commands(entries, Path(folder))))
        output = run_tool("debugfs", "-w", "-f", str(script), str(target))
    # debugfs ends well whatever happened; what went wrong it says beside the commands that it repeats
    wrong = [line for line in output.splitlines() if line and not line.startswith(("debugfs", "Allocated inode"))]
    if wrong:
        raise RuntimeError(f"{target.name} could not be filled: {wrong[0]}")


def _commands(entries: Iterable[Entry], folder: Path) -> Iterator[str]:
    for number, entry in enumerate(entries):
        place, link = PurePosixPath("/", entry.path), link_target(entry)
        if link:
            yield f"symlink {place} {link}"
            continue
        if entry.content is None:
            yield f"mkdir {place}"
            yield f"set_inode_field {place} mode 0{_FOLDER | entry.mode:o}"
            continue
        file = folder / str(number)
        file.write_bytes(entry.content)
        yield from (f"cd {place.parent}", f"write {file} {place.name}", "cd /")
        yield f"set_inode_field {place} mode 0{_FILE | entry.mode:o}"


def link_target(entry: Entry) -> str:
    """What a link points at; empty for what is none."""
    return entry.symbolic_link or (f"/{entry.hard_link}" if entry.hard_link else "")


def run_tool(*command: str) -> str:
    """What a tool says, standard error included. Raises RuntimeError."""
    environment = {**os.environ, **_NO_TIME, "PATH": f"{os.environ.get('PATH', '')}:{_SBIN}", "LC_ALL": "C"}
    try:
        done = subprocess.run(
            command, check=False, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )
    except FileNotFoundError as error:
        raise RuntimeError(f"{command[0]} is not installed: run `make setup` as root") from error
    if done.returncode:
        raise RuntimeError(f"{command[0]} failed: {done.stdout.strip()[-500:]}")
    return done.stdout
