"""QEMU's arguments, word by word."""

from __future__ import annotations

import json
import re
from itertools import pairwise
from pathlib import Path

import pytest

from tarmac.api.compute.validation.machines import MAX_ATTACHMENTS, MAX_INTERFACES
from tarmac.runtimes.qemu.commandline import command_line
from tarmac.runtimes.qemu.launching import disk_serials
from tarmac.runtimes.qemu.machine import DirectKernel, DiskImage, MachineDescription, TapInterface, UefiFirmware

GOLDEN = Path(__file__).parent / "golden"
UUID = "7f0c2c9e-8f3c-4a52-9f0e-3a1f1c6d2b11"
SMALL = MachineDescription(
    name="my-machines-dfw-0a1b2c3d-0",
    uuid=UUID,
    memory_mib=256,
    processors=1,
    disks=(DiskImage("persistent-disk-0", 20), DiskImage("logs", 21)),
    seed=DiskImage("cidata", 22, read_only=True),
    interfaces=(TapInterface("02:dd:50:62:0e:9a", (30,)), TapInterface("02:dd:50:62:0e:9b", (31,))),
    kernel=DirectKernel(40, 41, "console=tty0 console=ttyS0 root=/dev/vda"),
)
LARGE = MachineDescription(
    name="db",
    uuid=UUID,
    memory_mib=32768,
    processors=32,
    disks=(DiskImage("boot", 3),),
    uefi=UefiFirmware(4, 5),
)


def lines(machine: MachineDescription, accelerator: str) -> str:
    """An option and its value on each line."""
    words = command_line(machine, "kvm" if accelerator == "kvm" else "tcg")
    return " ".join(words).replace(" -", "\n-") + "\n"


@pytest.mark.parametrize(("name", "machine", "accelerator"), [("small", SMALL, "tcg"), ("large", LARGE, "kvm")])
def test_the_command_reads_as_it_did(name: str, machine: MachineDescription, accelerator: str) -> None:
    assert lines(machine, accelerator) == (GOLDEN / f"{name}.txt").read_text()


def test_arguments_name_no_path_of_the_host() -> None:
    paths = re.findall(r"(?<![\w.])/[\w/.]+", lines(SMALL, "tcg"))
    own = ("/run/", "/dev/fdset/", "/proc/self/fd/")
    assert [path for path in paths if not path.startswith(own)] == ["/dev/urandom", "/dev/vda"]


def full() -> MachineDescription:
    disks = tuple(DiskImage(f"d{index}", 100 + index) for index in range(MAX_ATTACHMENTS))
    taps = tuple(TapInterface(f"02:00:00:00:00:{index:02x}", (200 + index,)) for index in range(MAX_INTERFACES))
    return MachineDescription(
        name="full", uuid=UUID, memory_mib=128, processors=4, disks=disks, seed=DiskImage("cidata", 9), interfaces=taps
    )


def test_the_maximum_of_devices_has_distinct_addresses() -> None:
    places = re.findall(r"addr=(0x[0-9a-f]+)\.(0x[0-9a-f]+)", lines(full(), "tcg"))
    assert len(places) == len(set(places)) == MAX_ATTACHMENTS + MAX_INTERFACES + 1 + 4 + 3
    taken = {int(slot, 16) for slot, _ in places}
    assert not taken & {0, 1, 31}, "the host bridge, the display, the board's own"
    assert max(taken) < 32


def test_a_slot_that_is_shared_says_so_and_begins_with_its_first_function() -> None:
    shared: dict[str, set[int]] = {}
    for line in lines(full(), "tcg").splitlines():
        if place := re.search(r"addr=(0x[0-9a-f]+)\.0x([0-7])(,multifunction=on)?", line):
            shared.setdefault(place[1], set()).add(int(place[2]))
            assert place[3] or int(place[2]) == 0
    assert all(0 in functions for functions in shared.values())


def test_formats_are_said_and_never_guessed() -> None:
    words = command_line(full(), "kvm")
    nodes = [json.loads(word) for option, word in pairwise(words) if option == "-blockdev"]
    assert {node["driver"] for node in nodes} == {"raw"}
    assert {node["file"]["driver"] for node in nodes} == {"file"}


def test_values_cannot_become_options() -> None:
    odd = MachineDescription(
        name="a,b", uuid=UUID, memory_mib=128, processors=1, disks=(DiskImage("x,share-rw=on", 3),)
    )
    text = lines(odd, "tcg")
    assert "guest=a,,b,debug-threads=on" in text
    assert "serial=x,,share-rw=on,werror" in text


SERIALS = [
    (["persistent-disk-0", "logs"], ["persistent-disk-0", "logs"]),
    (["a" * 20, "b" * 25], ["a" * 20, "b" * 20]),
]


@pytest.mark.parametrize(("names", "serials"), SERIALS)
def test_a_name_that_fits_is_the_serial(names: list[str], serials: list[str]) -> None:
    assert disk_serials(names) == serials


def test_names_that_are_alike_when_cut_differ_in_their_serials_and_always_in_the_same_way() -> None:
    names = ["x" * 25 + "1", "x" * 25 + "2", "cidata", "twice", "twice", "plain"]
    found = disk_serials(names)
    assert len({*found, "cidata"}) == len(names) + 1
    assert all(len(each) <= 20 for each in found)
    assert found[0].startswith("x" * 16)
    assert found[5] == "plain"
    assert disk_serials(names) == found
