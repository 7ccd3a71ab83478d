"""The device checkpoint is read back as written; a damaged one refuses the start."""

from __future__ import annotations

import json
import zlib
from pathlib import Path
from typing import Any

import pytest

from tarmac.agent.config.configreader import BadConfig
from tarmac.agent.devices.checkpoint import FILE, DeviceCheckpoint
from tarmac.agent.devices.holdings import DeviceHolder, DeviceHoldings, HeldDevices

RESOURCE = "example.com/gpu"


def some() -> DeviceHoldings:
    holdings = DeviceHoldings()
    holdings.put(DeviceHolder("one", "init", RESOURCE), HeldDevices(("g0",), b"\x0a\x00\xff"))
    holdings.put(DeviceHolder("one", "main", RESOURCE), HeldDevices(("g0", "g1"), b""))
    holdings.put(DeviceHolder("two", "main", RESOURCE), HeldDevices(("g2",)))
    return holdings


def test_a_written_checkpoint_is_read_back(tmp_path: Path) -> None:
    registered = {RESOURCE: ["g0", "g1", "g2"], "example.com/gone": list[str]()}
    DeviceCheckpoint(tmp_path).write(some(), registered)
    holdings, known = DeviceCheckpoint(tmp_path).read()
    assert (sorted(holdings), known) == (sorted(some()), registered)
    assert (tmp_path / FILE).stat().st_mode & 0o777 == 0o600


def test_without_a_file_nobody_has_anything(tmp_path: Path) -> None:
    holdings, known = DeviceCheckpoint(tmp_path).read()
    assert (list(holdings), known) == ([], {})


def test_the_file_is_kubelets_with_a_checksum_of_its_own(tmp_path: Path) -> None:
    DeviceCheckpoint(tmp_path).write(some(), {RESOURCE: ["g0"]})
    text = (tmp_path / FILE).read_text()
    found = json.loads(text)
    assert found["Data"]["RegisteredDevices"] == {RESOURCE: ["g0"]}
    assert found["Data"]["PodDeviceEntries"][0] == {
        "PodUID": "one",
        "ContainerName": "init",
        "ResourceName": RESOURCE,
        "DeviceIDs": {"-1": ["g0"]},
        "AllocResp": "CgD/",
    }
    data = text.removeprefix('{"Data":').rpartition(',"Checksum":')[0]
    assert found["Checksum"] == zlib.crc32(data.encode())


def entry(uid: str, device: str) -> dict[str, Any]:
    return {"PodUID": uid, "ContainerName": "main", "ResourceName": RESOURCE, "DeviceIDs": {"-1": [device]}}


def with_checksum(data: object) -> bytes:
    text = json.dumps(data).encode()
    return b'{"Data":%b,"Checksum":%d}' % (text, zlib.crc32(text))


TWICE = {"PodDeviceEntries": [entry("one", "g0"), entry("two", "g0")], "RegisteredDevices": {}}


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (b"", "Input data was truncated"),
        (b"{}", "missing required field"),
        (b'{"Data":{"PodDeviceEntries":[],"RegisteredDevices":{}},"Checksum":1}', "its checksum does not match"),
        (with_checksum([]), "Expected `object`, got `array`"),
        (with_checksum(TWICE), f"device g0 of {RESOURCE} belongs to pods one and two"),
    ],
)
def test_a_damaged_file_refuses_the_start_and_names_the_remedy(tmp_path: Path, text: bytes, why: str) -> None:
    (tmp_path / FILE).write_bytes(text)
    with pytest.raises(BadConfig) as refused:
        DeviceCheckpoint(tmp_path).read()
    assert why in str(refused.value)
    assert str(refused.value).startswith(f"{tmp_path / FILE}: ")
    assert "drain the node, delete the file and start the agent again" in str(refused.value)


def test_every_cut_and_every_flipped_bit_is_noticed(tmp_path: Path) -> None:
    DeviceCheckpoint(tmp_path).write(some(), {RESOURCE: ["g0"]})
    path = tmp_path / FILE
    whole = path.read_bytes()
    end = whole.rindex(b',"Checksum":')
    for at in range(len(b'{"Data":'), end):
        path.write_bytes(whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :])
        with pytest.raises(BadConfig):
            DeviceCheckpoint(tmp_path).read()
        path.write_bytes(whole[:at])
        with pytest.raises(BadConfig):
            DeviceCheckpoint(tmp_path).read()


def test_a_disk_that_takes_nothing_leaves_the_old_file_whole(tmp_path: Path) -> None:
    checkpoint = DeviceCheckpoint(tmp_path)
    checkpoint.write(some(), {})
    (tmp_path / FILE).with_suffix(".new").mkdir()
    with pytest.raises(OSError, match="directory"):
        checkpoint.write(DeviceHoldings(), {})
    assert sorted(checkpoint.read()[0]) == sorted(some())
