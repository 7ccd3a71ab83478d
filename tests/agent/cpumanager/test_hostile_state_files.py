"""A state file that no agent wrote is refused at once, without harm to other files."""

from __future__ import annotations

import binascii
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tarmac.agent.config.configreader import BadConfig
from tarmac.agent.cpumanager.statefile import NAME, StateFile
from tarmac.agent.devices.checkpoint import FILE, DeviceCheckpoint
from tarmac.base.cpuset import CPUSet

pytestmark = [pytest.mark.timeout(20, method="signal")]  # opening a pipe blocks forever
ONLINE, RESERVED = CPUSet(range(4)), CPUSet([0])
ASSIGNED = {"a": {"main": CPUSet([1])}}


def state(**changes: Any) -> bytes:
    """Write a state file with a valid checksum."""
    fields: dict[str, Any] = {"policyName": "static", "defaultCpuSet": "0", "entries": {}, **changes}
    text = json.dumps(fields, sort_keys=True, separators=(",", ":")).encode()
    return json.dumps({**fields, "checksum": binascii.crc32(text)}).encode()


def entries(**cpus: str) -> bytes:
    return state(entries={uid: {"main": each} for uid, each in cpus.items()})


def refusal(root: Path) -> str:
    with pytest.raises(BadConfig) as caught:
        StateFile(root).read(ONLINE, RESERVED)
    told = str(caught.value)
    assert told.startswith(f"{root / NAME}: ")
    assert told.endswith("; drain the node, delete this file and start the agent again")
    assert len(told) < 1000
    return told


def sparse(path: Path) -> None:
    with open(path, "wb") as file:
        file.truncate(100 << 20)


def to_a_valid_file(path: Path) -> None:
    other = path.with_name("other")
    other.write_bytes(state())
    path.symlink_to(other)


PLANTED: dict[str, tuple[Callable[[Path], None], str]] = {
    "pipe": (os.mkfifo, "is not a regular file"),
    "device": (lambda path: path.symlink_to("/dev/zero"), "Too many levels of symbolic links"),
    "link": (to_a_valid_file, "Too many levels of symbolic links"),
    "folder": (lambda path: path.mkdir(), "Is a directory"),
    "large": (sparse, "is larger than"),
}


@pytest.mark.parametrize("kind", PLANTED)
def test_a_state_file_that_is_no_plain_small_file_refuses_the_start(tmp_path: Path, kind: str) -> None:
    plant, why = PLANTED[kind]
    plant(tmp_path / NAME)
    assert why in refusal(tmp_path)


@pytest.mark.parametrize("kind", sorted(PLANTED.keys() - {"large"}))  # a node with many devices has a large one
def test_a_device_checkpoint_that_is_no_plain_file_refuses_the_start(tmp_path: Path, kind: str) -> None:
    plant, why = PLANTED[kind]
    plant(tmp_path / FILE)
    with pytest.raises(BadConfig, match=why):
        DeviceCheckpoint(tmp_path).read()


@pytest.mark.parametrize("cut", range(0, len(state()), 9))
def test_a_truncated_state_file_refuses_the_start(tmp_path: Path, cut: int) -> None:
    (tmp_path / NAME).write_bytes(state()[:cut])
    refusal(tmp_path)


@pytest.mark.parametrize(
    "content",
    [
        state(version="v9"),
        state(entries={"a": {"main": ["1"]}}),
        state(entries={"a": "1"}),
        state(entries=None),
        state(policyName=None),
        entries(a="1", b="1"),
        entries(a="1,1-2", b="2-3"),
        entries(a="9"),
        entries(a="0-99999999999"),
        entries(a="1" * 100_000),
        entries(a=",".join(["0-65535"] * 5000)),
        entries(a="-1"),
        entries(a="1\n"),
        entries(a="١"),
        entries(a="0x1"),
        state() + state(),
        b"[" * 100_000,
        state()[:-1] + b',"checksum":1e999}',
        state()[:-1] + b',"checksum":-1}',
    ],
    ids=range(19),
)
def test_state_of_a_foreign_version_or_with_impossible_cpus_refuses_the_start(tmp_path: Path, content: bytes) -> None:
    (tmp_path / NAME).write_bytes(content)
    refusal(tmp_path)


def test_a_repeated_field_is_checked_in_the_value_that_counts(tmp_path: Path) -> None:
    good = entries(a="1")
    (tmp_path / NAME).write_bytes(b'{"entries":{"b":{"main":"1-3"}},' + good[1:])
    assert StateFile(tmp_path).read(ONLINE, RESERVED) == ASSIGNED


@pytest.mark.parametrize("plant", ["link", "pipe"])
def test_writing_the_state_follows_no_link_and_waits_for_no_reader(tmp_path: Path, plant: str) -> None:
    victim = tmp_path / "victim"
    victim.write_text("precious")
    for name in (NAME, FILE):
        unfinished = (tmp_path / name).with_suffix(".new")
        unfinished.symlink_to(victim) if plant == "link" else os.mkfifo(unfinished)
    StateFile(tmp_path).write(CPUSet([0]), ASSIGNED)
    DeviceCheckpoint(tmp_path).write(DeviceCheckpoint(tmp_path).read()[0], {})
    assert victim.read_text() == "precious"
    assert not (tmp_path / NAME).is_symlink()
    assert StateFile(tmp_path).read(ONLINE, RESERVED) == ASSIGNED
