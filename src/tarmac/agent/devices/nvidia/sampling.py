"""Samples GPUs by a program that ends after each sample (`nvmlprogram`): NVML stays out of the plugin's process."""

from __future__ import annotations

import asyncio
import sys
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

from tarmac.agent.devices.nvidia.driverfiles import NVML, library_folder
from tarmac.agent.devices.nvidia.samples import GpuSample, NvmlUnavailable, parsed

TIMEOUT: Final = 20.0
"""Seconds for one sample: a driver that has to initialize eight GPUs first takes some of them."""
MAX_BYTES: Final = 1 << 20
_END_TIMEOUT: Final = 1.0
NO_LIBRARY: Final = "the driver's libraries are not on this machine"


def sampling_command(root: Path, version: str) -> list[str]:
    """Return the command line of the program, without UUIDs; empty if the driver's library is nowhere."""
    folder = library_folder(root, version)
    # Without a folder the loader may still find it by its name.
    found = [*([str(folder / NVML)] if folder is not None else []), *([NVML] if root == Path("/") else [])]
    return [sys.executable, "-m", "tarmac.agent.devices.nvidia.nvmlprogram", *found, "--"] if found else []


class NvmlSampler:
    """Runs the program once for each sample."""

    def __init__(self, command: Sequence[str], timeout: float = TIMEOUT) -> None:
        self._command = command
        self._timeout = timeout
        self._process: Process | None = None

    async def sample(self, uuids: Sequence[str]) -> dict[str, GpuSample]:
        """Return a sample of each GPU. Raises NvmlUnavailable."""
        if not self._command:
            raise NvmlUnavailable(NO_LIBRARY)
        if self._process is not None and self._process.returncode is None:
            # Killed, but in a call of the driver that nothing interrupts: another one would hang beside it.
            raise NvmlUnavailable("the sampling program hangs in a call of the driver")
        try:
            self._process = await asyncio.create_subprocess_exec(
                *self._command, *uuids, stdin=DEVNULL, stdout=PIPE, stderr=DEVNULL
            )
        except OSError as error:
            raise NvmlUnavailable(f"the sampling program cannot be started: {error.strerror}") from error
        text = await self._answer(self._process)
        if self._process.returncode:
            raise NvmlUnavailable(_ended(self._process.returncode))
        return parsed(text, uuids)

    async def _answer(self, process: Process) -> bytes:
        """Return the program's output after its end. Raises NvmlUnavailable; the program has ended or was killed."""
        try:
            async with asyncio.timeout(self._timeout):
                text = await _all_of(process)
                await process.wait()
                return text
        except TimeoutError:
            raise NvmlUnavailable(f"NVML did not answer within {self._timeout:g} s") from None
        finally:
            # Also when cancelled: the plugin's end must not leave a program with an open GPU behind.
            await _end(process)


async def _all_of(process: Process) -> bytes:
    assert process.stdout is not None
    try:
        await process.stdout.readexactly(MAX_BYTES + 1)
    except asyncio.IncompleteReadError as ended:
        return ended.partial
    raise NvmlUnavailable(f"the sampling program printed more than {MAX_BYTES} bytes")


async def _end(process: Process) -> None:
    if process.returncode is not None:
        return
    with suppress(ProcessLookupError):
        process.kill()
    # Bounded, since an uninterruptible call of the driver outlives the signal. It also reads the rest of the output,
    # without which a paused pipe would stay open.
    with suppress(TimeoutError):
        async with asyncio.timeout(_END_TIMEOUT):
            await process.communicate()


def _ended(code: int) -> str:
    how = f"was ended by signal {-code}" if code < 0 else f"failed with exit code {code}"
    return f"the sampling program {how}"
