"""XIDs of the kernel's log: the driver's own lines only, and a log that overruns, ends or cannot be read."""

from __future__ import annotations

import asyncio
import errno
import os
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest

from tarmac.agent.devices.nvidia.kernellog import KernelLog, Slot, slot_of, xid_in
from tests.agent.devices.nvidia.fakedriver import H200, FakeDriver
from tests.agent.devices.stage import until

HEAD = b"4,339,5140900,-;"
XID = HEAD + b"NVRM: Xid (PCI:0000:05:00): 79, pid=1, name=python3, GPU has fallen off the bus.\n"


@pytest.mark.parametrize(
    ("record", "found"),
    [
        (XID, ((0, 5, 0), 79)),
        (XID + b" SUBSYSTEM=pci\n DEVICE=+pci:0000:05:00.0\n", ((0, 5, 0), 79)),
        (b"3,1,2,-,caller=T9;NVRM: Xid (PCI:0001:c1:00): 154, GPU recovery action changed\n", ((1, 0xC1, 0), 154)),
        (HEAD + b"NVRM: Xid (PCI:00010000:3B:1f): 13\n", ((0x10000, 0x3B, 0x1F), 13)),
        (HEAD + b"NVRM: Xid (PCI:0000:05:00 GPU-I:03): 94, Contained\n", ((0, 5, 0), 94)),
    ],
)
def test_a_line_of_the_driver_names_slot_and_number(record: bytes, found: tuple[Slot, int]) -> None:
    assert xid_in(record) == found


@pytest.mark.parametrize(
    "record",
    [
        b"", b"\n", b";", HEAD, b"\xff" * 10_000, XID[len(HEAD) :],
        b"12,339,5140900,-;" + XID[len(HEAD) :],  # by a program that writes to /dev/kmsg
        b"4,339,5140900,-;x\n" + XID,
        HEAD + b"evil\\x0a" + XID,  # a line end in a program's name, as the kernel escapes it
        HEAD + b"NVRM: Xid (PCI:[1234]: segfault at 0 ip 0 sp 0 error 4\n",  # a name of 15 characters
        HEAD + b"audit: type=1326 comm=" + XID,
        HEAD + b"NVRM: Xid (PCI:0000:05:00): 99999999999999999999\n",
        HEAD + b"NVRM: Xid (PCI:0000:05:00): -1\n",
        HEAD + b"NVRM: Xid (PCI:0000:05:00" + b"x" * 10_000 + b"): 79\n",
        HEAD + b"NVRM: Xid (PCI:0000:05:zz): 79\n",
        b"4," + b"9" * 10_000 + b",1,-;" + XID[len(HEAD) :],
        b"4,1,1," + b"-" * 10_000 + b";" + XID[len(HEAD) :],
    ],
)  # fmt: skip
def test_another_line_is_no_xid(record: bytes) -> None:
    assert xid_in(record) is None


def test_a_slot_is_read_from_a_pci_address() -> None:
    assert slot_of("0000:05:00.0") == slot_of("00000000:05:00") == (0, 5, 0)
    assert slot_of("5:0") is None


class Reader:
    """A log that answers with these records and errors, in their order."""

    def __init__(self, path: Path, *answers: bytes | int) -> None:
        os.mkfifo(path)
        self._writer = os.open(path, os.O_RDWR | os.O_NONBLOCK)
        self._answers: Iterator[bytes | int] = iter(answers)
        self.heard: list[tuple[Slot, int]] = []
        self.reads = 0
        self.log = KernelLog(path, lambda *xid: self.heard.append(xid), self._read)

    def _read(self, _file: int, _size: int) -> bytes:
        self.reads += 1
        answer = next(self._answers, errno.EAGAIN)
        if isinstance(answer, int):
            raise OSError(answer, os.strerror(answer))
        return answer

    def start(self) -> None:
        """Open the log, which is readable."""
        self.log.ensure_open()
        os.write(self._writer, b"x")

    def end(self) -> None:
        os.close(self._writer)

    async def runs(self) -> None:
        """Let it read everything."""
        self.start()
        for _ in range(10):
            await asyncio.sleep(0)
        self.end()


async def test_reading_goes_on_after_an_overrun_and_a_record_that_is_too_large(tmp_path: Path) -> None:
    reader = Reader(tmp_path / "log", XID, errno.EPIPE, XID, errno.EINVAL, errno.EPIPE, XID)
    await reader.runs()
    assert reader.heard == [((0, 5, 0), 79)] * 3
    assert reader.log.problem == ""
    reader.log.close()


@pytest.mark.parametrize(("answer", "why"), [(b"", "has ended"), (errno.EIO, "Input/output error")])
async def test_a_log_that_fails_or_ends_is_a_problem_and_is_opened_again(
    tmp_path: Path, answer: bytes | int, why: str
) -> None:
    reader = Reader(tmp_path / "log", XID, answer)
    await reader.runs()
    assert reader.heard == [((0, 5, 0), 79)]
    assert why in reader.log.problem
    reader.log.ensure_open()
    assert reader.log.problem == ""
    reader.log.close()


async def test_a_log_that_may_not_be_read_is_a_problem(tmp_path: Path) -> None:
    log = KernelLog(tmp_path / "none", lambda *_: None)
    log.ensure_open()
    assert log.problem == f"{tmp_path}/none: No such file or directory"
    regular = tmp_path / "regular"
    regular.write_bytes(XID)
    log = KernelLog(regular, lambda *_: None)
    log.ensure_open()
    assert log.problem == f"{regular}: Operation not permitted"
    log.close()


async def test_a_flood_of_records_leaves_the_event_loop_its_turns(tmp_path: Path) -> None:
    reader = Reader(tmp_path / "log", *[HEAD + b"noise\n"] * 2000, XID)
    reader.start()
    reads = [0]
    async with asyncio.timeout(10):
        while not reader.heard:
            await asyncio.sleep(0)
            reads.append(reader.reads)
    assert max(after - before for before, after in pairwise(reads)) <= 256
    reader.log.close()
    reader.end()


async def test_xids_of_the_driver_are_heard_from_its_log(tmp_path: Path) -> None:
    driver = FakeDriver(tmp_path / "root", H200, H200)
    heard: list[tuple[Slot, int]] = []
    log = KernelLog(driver.root / "dev/kmsg", lambda *xid: heard.append(xid))
    log.ensure_open()
    driver.xid(driver.gpus[1], 48)
    driver.kernel_says("usb 1-1: new device")
    driver.xid(driver.gpus[0], 79)
    await until(lambda: len(heard) == 2)
    assert heard == [(slot_of(driver.gpus[1].bus), 48), (slot_of(driver.gpus[0].bus), 79)]
    log.close()
