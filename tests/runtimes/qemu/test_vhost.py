"""vhost-net carries the frames of guests where the kernel has it, and QEMU does where it has not."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tarmac.runtimes.qemu.commandline import command_line
from tarmac.runtimes.qemu.machine import DiskImage, MachineDescription, TapInterface
from tarmac.runtimes.qemu.vhost import open_vhost, why_not


@pytest.fixture
def device(tmp_path: Path) -> Path:
    made = tmp_path / "vhost-net"
    made.touch()
    return made


def netdevs(*interfaces: TapInterface) -> list[str]:
    machine = MachineDescription(
        name="a", uuid="u", memory_mib=128, processors=1, disks=(DiskImage("boot", 3),), interfaces=interfaces
    )
    words = command_line(machine, "kvm")
    return [words[place + 1] for place, word in enumerate(words) if word == "-netdev"]


def test_each_interface_is_carried_by_its_own_descriptor_or_by_qemu() -> None:
    found = netdevs(TapInterface("02:00:00:00:00:01", 30, 31), TapInterface("02:00:00:00:00:02", 32))
    assert found == ["tap,id=net0,fd=30,vhost=on,vhostfd=31", "tap,id=net1,fd=32,vhost=off"]


def test_a_guest_on_the_processor_itself_gets_it(device: Path) -> None:
    opened = open_vhost("kvm", device)
    assert opened is not None
    with opened:
        assert os.path.samestat(os.fstat(opened.fileno()), device.stat())
        assert not os.get_inheritable(opened.fileno()), "what starts QEMU hands on what is its own, and nothing else"
    assert why_not("kvm", device) == ""


def test_without_it_frames_go_through_qemu_and_the_node_says_why(tmp_path: Path) -> None:
    missing = tmp_path / "missing"
    assert open_vhost("kvm", missing) is None
    assert why_not("kvm", missing) == f"{missing}: No such file or directory"


def test_an_emulated_guest_does_without_and_nothing_is_said(device: Path) -> None:
    assert open_vhost("tcg", device) is None
    assert why_not("tcg", device) == ""
