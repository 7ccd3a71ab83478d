"""Checkpoint of the devices in use: read at start, replaced atomically before a change takes effect.

Its format is kubelet's, with a checksum (CRC-32 of `Data` as written). The agent does not start with a damaged file, or
one that gives one device to two pods: without it, a device could be given to a second pod while the first still uses
it. Files are not synced to disk: they survive a killed agent, and after a power loss no pod runs.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

import msgspec

from tarmac.agent.config.configreader import BadConfig
from tarmac.agent.devices.holdings import DeviceHolder, DeviceHoldings, HeldDevices
from tarmac.base.statefiles import read_state, replace_state

FILE: Final = "device_manager_state"
_MAX_BYTES: Final = 256 << 20  # the longest lists and answers of all plugins
_NO_NODE: Final = "-1"  # NUMA node: topology is ignored


class _Entry(msgspec.Struct, rename="pascal"):
    pod_uid: str = msgspec.field(name="PodUID")
    container_name: str
    resource_name: str
    device_ids: dict[str, list[str]] = msgspec.field(name="DeviceIDs")
    alloc_resp: bytes | None = None


class _Data(msgspec.Struct, rename="pascal"):
    pod_device_entries: list[_Entry]
    registered_devices: dict[str, list[str]]


class _File(msgspec.Struct, rename="pascal", forbid_unknown_fields=True):
    data: msgspec.Raw
    checksum: int


_encode = msgspec.json.Encoder(order="deterministic").encode


class DeviceCheckpoint:
    """The file below the agent's root directory. `registered`: the devices of each known plugin."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / FILE

    def read(self) -> tuple[DeviceHoldings, dict[str, list[str]]]:
        """Return the devices in use and the registered ones. Raises BadConfig."""
        try:
            text = read_state(self._path, _MAX_BYTES)
        except FileNotFoundError:
            return DeviceHoldings(), {}
        except OSError as error:
            raise self._damaged(error.strerror or str(error)) from error
        try:
            file = msgspec.json.decode(text, type=_File)
            # Of the bytes as written: encoding the decoded data again could give different ones.
            if zlib.crc32(file.data) != file.checksum:
                raise self._damaged("its checksum does not match")
            data = msgspec.json.decode(file.data, type=_Data)
        except (UnicodeError, msgspec.MsgspecError) as error:
            raise self._damaged(str(error)) from error
        return self._holdings(data), data.registered_devices

    def write(self, holdings: DeviceHoldings, registered: Mapping[str, Sequence[str]]) -> None:
        """Replace it. Raises OSError; the old one is intact then."""
        entries = [
            _Entry(holder.uid, holder.container, holder.resource, {_NO_NODE: list(held.ids)}, held.answer)
            for holder, held in holdings
        ]
        data = _encode(_Data(entries, {name: list(ids) for name, ids in registered.items()}))
        replace_state(self._path, b'{"Data":%b,"Checksum":%d}' % (data, zlib.crc32(data)))

    def _holdings(self, data: _Data) -> DeviceHoldings:
        holdings = DeviceHoldings()
        owners: dict[tuple[str, str], str] = {}
        for entry in data.pod_device_entries:
            ids = tuple(device for part in entry.device_ids.values() for device in part)
            for device in ids:
                owner = owners.setdefault((entry.resource_name, device), entry.pod_uid)
                if owner != entry.pod_uid:
                    both = f"pods {owner} and {entry.pod_uid}"
                    raise self._damaged(f"device {device} of {entry.resource_name} belongs to {both}")
            holder = DeviceHolder(entry.pod_uid, entry.container_name, entry.resource_name)
            holdings.put(holder, HeldDevices(ids, entry.alloc_resp))
        return holdings

    def _damaged(self, why: str) -> BadConfig:
        remedy = "drain the node, delete the file and start the agent again"
        return BadConfig(f"{self._path}: {why}, so the assigned devices are unknown; {remedy}")
