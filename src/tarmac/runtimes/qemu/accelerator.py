"""Probes for an accelerator: KVM, or TCG (translation). A test kernel is booted to prove that it works.

A /dev/kvm that can be opened proves nothing: on some hosts QEMU aborts with it, on others it hangs. So a kernel is
booted until it prints a line on the serial port, first with KVM, then without. The result is valid until the host
reboots or QEMU's version changes, and for every node on the host: all of them share one file, which is locked while one
of them probes.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import os
import shutil
import tempfile
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from subprocess import DEVNULL, PIPE, STDOUT
from typing import Final

import msgspec

from tarmac.base.lockfiles import open_lock
from tarmac.base.log import log
from tarmac.runtimes.interface.errors import RuntimeRefused
from tarmac.runtimes.qemu.commandline import PROGRAM, trial_command
from tarmac.runtimes.qemu.dependencies import BootFiles
from tarmac.runtimes.qemu.jail import KVM
from tarmac.runtimes.qemu.machine import Accelerator
from tarmac.runtimes.qemu.records import replace_file

SIGN: Final = b"tarmac-guest: the kernel runs"
"""The first line that our initial filesystem prints."""

_SECONDS: Final[dict[Accelerator, float]] = {"kvm": 10.0, "tcg": 60.0}
_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
_log = log("qemu")


@dataclass(frozen=True, slots=True)
class AcceleratorProbe:
    """The result of a probe. `kvm_group` is the group that may open /dev/kvm, where KVM is used."""

    accelerator: Accelerator
    why: str
    kvm_group: int | None = None


class _Kept(msgspec.Struct):
    boot_id: str
    qemu: str
    accelerator: Accelerator
    why: str


Try = Callable[[Accelerator], Awaitable[str]]
"""Boots a kernel with an accelerator; returns the failure, empty on success."""


async def probe(file: Path, boot: BootFiles | None) -> AcceleratorProbe:
    """Return the stored result, or probe. Raises RuntimeRefused with the reason why no machine can run here."""
    try:
        return await _probe(file, boot)
    except OSError as error:
        raise RuntimeRefused(f"virtual machines cannot be probed: {error}") from error


async def _probe(file: Path, boot: BootFiles | None) -> AcceleratorProbe:
    if shutil.which(PROGRAM) is None:
        raise RuntimeRefused(f"{PROGRAM} is not installed: run `apt install tarmac-machines`")
    version = await _version()
    file.parent.mkdir(parents=True, exist_ok=True)
    lock = open_lock(file.with_suffix(".lock"))
    try:
        await _locked(lock)
        known = _known(file, version)
        if known is None:
            if boot is None:
                raise RuntimeRefused("there is no kernel to try it with: run `make node-parts` as root in a clone")
            known = await decide(version, lambda accelerator: _boot(accelerator, boot))
            replace_file(file, msgspec.json.encode(known))
    finally:
        os.close(lock)
    return AcceleratorProbe(known.accelerator, known.why, kvm_group() if known.accelerator == "kvm" else None)


async def decide(version: str, attempt: Try) -> _Kept:
    """Probe KVM where it exists, then TCG. Raises RuntimeRefused."""
    why_not = f"{KVM} is not there, or its group may not open it" if kvm_group() is None else await attempt("kvm")
    if not why_not:
        return _Kept(_boot_id(), version, "kvm", "")
    _log.info("KVM is not used", why=why_not)
    if trouble := await attempt("tcg"):
        raise RuntimeRefused(trouble)
    return _Kept(_boot_id(), version, "tcg", why_not)


def kvm_group() -> int | None:
    """Return the group that may open /dev/kvm. None counts as absent: machines get access by that group only."""
    try:
        found = os.stat(KVM)
        if found.st_mode & 0o060 == 0o060:
            os.close(os.open(KVM, os.O_RDWR | os.O_CLOEXEC))
            return found.st_gid
    except OSError:
        pass
    return None


async def _boot(accelerator: Accelerator, boot: BootFiles) -> str:
    """Boot a kernel in a minimal machine; return the failure, empty on success."""
    with tempfile.TemporaryDirectory() as empty:
        process = await asyncio.create_subprocess_exec(
            *trial_command(accelerator, str(boot.kernel), str(boot.initrd or ""), boot.command_line),
            stdin=DEVNULL,
            stdout=PIPE,
            stderr=STDOUT,
            cwd=empty,
            env={"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL": "C"},
        )
        assert process.stdout is not None, "it was asked for"
        output = bytearray()
        try:
            async with asyncio.timeout(_SECONDS[accelerator]):
                while SIGN not in output:
                    if not (data := await process.stdout.read(1 << 12)):
                        return f"{accelerator}: QEMU ended: {_end_of(output)}"
                    output += data
            return ""
        except TimeoutError:
            return f"{accelerator}: no kernel came up within {_SECONDS[accelerator]:g} s: {_end_of(output)}"
        finally:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            await process.wait()


def _end_of(output: bytes | bytearray) -> str:
    return bytes(output[-300:]).decode(errors="replace").strip() or "it said nothing"


async def _version() -> str:
    process = await asyncio.create_subprocess_exec(PROGRAM, "--version", stdin=DEVNULL, stdout=PIPE, stderr=STDOUT)
    output, _ = await process.communicate()
    if process.returncode:
        raise RuntimeRefused(f"{PROGRAM} does not run: {_end_of(output)}")
    return output.decode(errors="replace").partition("\n")[0]


async def _locked(descriptor: int) -> None:
    """Wait for the lock: another node of this host may be probing."""
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            await asyncio.sleep(0.2)
        else:
            return


def _known(file: Path, version: str) -> _Kept | None:
    try:
        kept = msgspec.json.decode(file.read_bytes(), type=_Kept)
    except (OSError, UnicodeError, msgspec.MsgspecError):
        return None
    return kept if (kept.boot_id, kept.qemu) == (_boot_id(), version) else None


def _boot_id() -> str:
    return _BOOT_ID.read_text().strip()
