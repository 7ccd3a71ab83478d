"""An interface has a queue for each processor of its guest where vhost-net carries its frames."""

from __future__ import annotations

import errno
import io
from contextlib import ExitStack
from pathlib import Path

import pytest

from tarmac.runtimes.qemu.machine import Accelerator, TapInterface
from tarmac.runtimes.qemu.nics import MAX_QUEUES, open_interface

MAC = "02:00:00:00:00:01"


class Tap:
    """A file with so many queues."""

    def __init__(self, path: Path, queues: int = 100, error: int = errno.EBUSY) -> None:
        path.touch()
        self._path, self._left, self._error = path, queues - 1, error
        self.files: list[io.FileIO] = []

    def open(self) -> io.FileIO:
        self.files.append(io.FileIO(self._path, "r+"))
        return self.files[-1]

    async def further(self) -> io.FileIO:
        if not self._left:
            raise OSError(self._error, "no further queue")
        self._left -= 1
        return self.open()


@pytest.fixture
def device(tmp_path: Path) -> Path:
    made = tmp_path / "vhost-net"
    made.touch()
    return made


async def opened(tap: Tap, device: Path, processors: int, accelerator: Accelerator = "kvm") -> TapInterface:
    with ExitStack() as files:
        found = await open_interface(MAC, tap.open(), tap.further, files, accelerator, processors, device)
        assert found.queues == tuple(each.fileno() for each in tap.files[: len(found.queues)])
        assert not set(found.queues) & set(found.vhosts)
    assert all(each.closed for each in tap.files)
    return found


@pytest.mark.parametrize(("processors", "queues"), [(1, 1), (2, 2), (4, 4), (MAX_QUEUES + 8, MAX_QUEUES)])
async def test_each_processor_has_a_queue_with_a_vhost_of_its_own(
    tmp_path: Path, device: Path, processors: int, queues: int
) -> None:
    found = await opened(Tap(tmp_path / "tap"), device, processors)
    assert (len(found.queues), len(found.vhosts)) == (queues, queues)


async def test_without_vhost_an_interface_has_one_queue(tmp_path: Path, device: Path) -> None:
    for number, (accelerator, at) in enumerate((("kvm", tmp_path / "missing"), ("tcg", device))):
        found = await opened(Tap(tmp_path / f"tap{number}"), at, 4, "kvm" if accelerator == "kvm" else "tcg")
        assert (len(found.queues), found.vhosts) == (1, ())


async def test_a_tap_of_an_older_version_keeps_its_only_queue(tmp_path: Path, device: Path) -> None:
    found = await opened(Tap(tmp_path / "tap", queues=1), device, 4)
    assert (len(found.queues), len(found.vhosts)) == (1, 1)


async def test_a_tap_that_is_gone_is_an_error_and_leaves_nothing_open(tmp_path: Path, device: Path) -> None:
    tap = Tap(tmp_path / "tap", queues=2, error=errno.ENODEV)
    with pytest.raises(OSError, match="no further queue"), ExitStack() as files:
        await open_interface(MAC, tap.open(), tap.further, files, "kvm", 4, device)
    assert all(each.closed for each in tap.files)
