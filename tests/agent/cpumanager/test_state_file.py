"""A plausible state file of exclusive CPUs is accepted; any other one refuses the start."""

from __future__ import annotations

import binascii
import json
from pathlib import Path
from typing import Any

import pytest

from tarmac.agent.config.configreader import BadConfig
from tarmac.agent.cpumanager.statefile import NAME, StateFile
from tarmac.base.cpuset import CPUSet

ONLINE, RESERVED = CPUSet(range(4)), CPUSet([0])


def write(root: Path, **changes: Any) -> Path:
    """Write a valid state file with these changes."""
    state: dict[str, Any] = {"policyName": "static", "defaultCpuSet": "0,3", "entries": {"a": {"main": "1-2"}}}
    checksum = changes.pop("checksum", None)
    state |= changes
    text = json.dumps(state, sort_keys=True, separators=(",", ":"))
    state["checksum"] = binascii.crc32(text.encode()) if checksum is None else checksum
    (root / NAME).write_text(json.dumps(state))
    return root


def test_a_written_state_file_is_read_back(tmp_path: Path) -> None:
    entries = {"a": {"init": CPUSet([1]), "main": CPUSet((1, 2))}, "b": {"main": CPUSet([3])}}
    StateFile(tmp_path).write(CPUSet([0]), entries)
    assert StateFile(tmp_path).read(ONLINE, RESERVED) == entries
    kept = json.loads((tmp_path / NAME).read_text())
    assert kept.pop("checksum") == binascii.crc32(json.dumps(kept, sort_keys=True, separators=(",", ":")).encode())
    assert kept == {
        "policyName": "static",
        "defaultCpuSet": "0",
        "entries": {"a": {"init": "1", "main": "1-2"}, "b": {"main": "3"}},
    }
    assert [each.name for each in tmp_path.iterdir()] == [NAME]


def test_no_file_and_one_of_another_policy_say_nothing(tmp_path: Path) -> None:
    assert StateFile(tmp_path).read(ONLINE, RESERVED) is None
    assert StateFile(write(tmp_path, policyName="none", entries={})).read(ONLINE, RESERVED) is None


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"checksum": 1}, "checksum does not match"),
        ({"entries": {"a": {"main": "1-2"}, "b": {"main": "2"}}}, "CPU 2 is assigned to pod a and to pod b"),
        ({"entries": {"a": {"main": "3-4"}}}, "pod a, container main: CPUs 4 are not online"),
        ({"entries": {"a": {"main": "0-1"}}}, "pod a, container main: CPUs 0 are reserved"),
        ({"entries": {"a": {"main": "1-"}}}, "invalid CPU range '1-' in '1-'"),
        ({"more": 1}, "Object contains unknown field `more`"),
    ],
)
def test_an_implausible_state_file_refuses_the_start_with_a_remedy(
    tmp_path: Path, changes: dict[str, Any], why: str
) -> None:
    with pytest.raises(BadConfig) as caught:
        StateFile(write(tmp_path, **changes)).read(ONLINE, RESERVED)
    told = f"{tmp_path}/{NAME}: {why}; drain the node, delete this file and start the agent again"
    assert str(caught.value) == told


@pytest.mark.parametrize("damage", [b"", b"{", b"\xff\xfe", b"null", b'{"policyName": 1}'])
def test_any_other_damage_does_too(tmp_path: Path, damage: bytes) -> None:
    (tmp_path / NAME).write_bytes(damage)
    with pytest.raises(BadConfig, match="drain the node, delete this file"):
        StateFile(tmp_path).read(ONLINE, RESERVED)


@pytest.mark.parametrize("at", range(0, 90, 7))
def test_one_flipped_bit_is_noticed(tmp_path: Path, at: int) -> None:
    StateFile(tmp_path).write(CPUSet([0]), {"a": {"main": CPUSet((1, 2))}})
    data = bytearray((tmp_path / NAME).read_bytes())
    data[at % len(data)] ^= 1
    (tmp_path / NAME).write_bytes(bytes(data))
    with pytest.raises(BadConfig):
        StateFile(tmp_path).read(ONLINE, RESERVED)
