"""Facts of the host, read from its files."""

from __future__ import annotations

from pathlib import Path

import pytest

from tarmac.agent.node.detectedaddresses import node_addresses, outgoing
from tarmac.agent.node.hostfacts import capacity, machine


@pytest.fixture
def root(tmp_path: Path) -> Path:
    files = {
        "proc/meminfo": "MemTotal:       1024 kB\nSwapTotal:      16 kB\nHugePages_Total:       3\n",
        "proc/sys/kernel/random/boot_id": "boot\n",
        "etc/machine-id": "machine\n",
        "etc/os-release": 'NAME="Debian"\nPRETTY_NAME="Debian GNU/Linux 12 (bookworm)"\n',
        "sys/devices/system/cpu/online": "0-1,4\n",
        "sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages": "4\n",
        "sys/kernel/mm/hugepages/hugepages-1048576kB/nr_hugepages": "1\n",
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    return tmp_path


def test_the_facts(root: Path) -> None:
    found = machine(root)
    assert (found.memory, found.swap) == (1 << 20, 16 << 10)
    assert dict(found.huge_pages) == {"2Mi": 8 << 20, "1Gi": 1 << 30}
    assert (found.machine_id, found.system_uuid, found.boot_id) == ("machine", "machine", "boot")
    assert found.os_image == "Debian GNU/Linux 12 (bookworm)"


def test_capacity(root: Path) -> None:
    found = machine(root)
    assert capacity(found, 5, 110, 0) == {
        "cpu": 3000, "memory": 1 << 20, "ephemeral-storage": 5, "pods": 110,
        "hugepages-2Mi": 8 << 20, "hugepages-1Gi": 1 << 30,
    }  # fmt: skip
    assert capacity(found, 5, 110, 3)["pods"] == 9


def test_a_machine_that_says_little(root: Path) -> None:
    for name in ("etc/machine-id", "etc/os-release"):
        (root / name).unlink()
    assert (machine(root).machine_id, machine(root).os_image) == ("", "Unknown")


def test_addresses_that_are_told_come_in_order_before_the_name() -> None:
    assert node_addresses(["10.0.0.1", "fd00::1"], "n") == [
        {"type": "InternalIP", "address": "10.0.0.1"},
        {"type": "InternalIP", "address": "fd00::1"},
        {"type": "Hostname", "address": "n"},
    ]


def test_addresses_that_lead_nowhere_are_not_found() -> None:
    assert not {"127.0.0.1", "::1", "0.0.0.0"} & set(outgoing())
