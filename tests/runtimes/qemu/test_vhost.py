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


def values(option: str, *interfaces: TapInterface) -> list[str]:
    machine = MachineDescription(
        name="a", uuid="u", memory_mib=128, processors=1, disks=(DiskImage("boot", 3),), interfaces=interfaces
    )
    words = command_line(machine, "kvm")
    return [words[place + 1] for place, word in enumerate(words) if word == option]


def test_each_interface_is_carried_by_its_own_descriptor_or_by_qemu() -> None:
    found = values("-netdev", TapInterface("02:00:00:00:00:01", (30,), (31,)), TapInterface("02:00:00:00:00:02", (32,)))
    assert found == ["tap,id=net0,fd=30,vhost=on,vhostfd=31", "tap,id=net1,fd=32,vhost=off"]


def test_an_interface_of_several_queues_has_a_vhost_for_each_and_interrupts_for_all() -> None:
    interface = TapInterface("02:00:00:00:00:01", (30, 31, 32), (40, 41, 42))
    assert values("-netdev", interface) == ["tap,id=net0,fds=30:31:32,vhost=on,vhostfds=40:41:42"]
    (device,) = (each for each in values("-device", interface) if each.startswith("virtio-net-pci"))
    assert ",mq=on,vectors=8," in device
    (single,) = (each for each in values("-device", TapInterface("02:00:00:00:00:01", (30,))) if "virtio-net" in each)
    assert "mq=" not in single


def test_a_guest_on_the_processor_itself_gets_it(device: Path) -> None:
    opened = open_vhost("kvm", device)
    assert opened is not None
    with opened:
        assert os.path.samestat(os.fstat(opened.fileno()), device.stat())
        assert not os.get_inheritable(opened.fileno()), "QEMU inherits its own descriptors, and no other"
    assert why_not("kvm", device) == ""


def test_without_it_frames_go_through_qemu_and_the_node_says_why(tmp_path: Path) -> None:
    missing = tmp_path / "missing"
    assert open_vhost("kvm", missing) is None
    assert why_not("kvm", missing) == f"{missing}: No such file or directory"


def test_an_emulated_guest_does_without_and_nothing_is_said(device: Path) -> None:
    assert open_vhost("tcg", device) is None
    assert why_not("tcg", device) == ""
