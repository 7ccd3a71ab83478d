"""Classes of block I/O: parses their file and computes the kernel parameters of a class on this host. Pure.

The file is the one that container runtimes read:

    Classes:
      slow:
      - Weight: 20                                     # no Devices: for every disk
      - Devices: [/dev/vd*]
        ThrottleReadBps: 50M
        ThrottleWriteIOPS: 1k

Amounts are Kubernetes quantities, a weight is 10 to 1000, and a setting of a disk in a later entry replaces an earlier
one. Keys are case-insensitive, as in runtimes. Each class is parsed separately, so that a reader of a runtime's file
can skip one invalid class and use the rest.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from tarmac.api.schema import JsonObject
from tarmac.base import names
from tarmac.base.quantity import Quantity

Disk = tuple[int, int]
"""Major and minor number."""

Rates = Mapping[Disk, int]

THROTTLES: Final = ("ReadBps", "WriteBps", "ReadIOPS", "WriteIOPS")
MIN_WEIGHT, MAX_WEIGHT = 10, 1000
_MAX_RATE: Final = 2**63 - 1
_KEYS: Final = {name.lower(): name for name in ("Devices", "Weight", *(f"Throttle{each}" for each in THROTTLES))}


@dataclass(frozen=True, slots=True)
class BlockioEntry:
    """One entry of a class; without `devices` it is a weight for every disk."""

    devices: tuple[str, ...] = ()
    weight: int | None = None
    throttles: Mapping[str, int] = field(default_factory=dict[str, int])


@dataclass(frozen=True, slots=True)
class BlockioParameters:
    """Kernel parameters of a class: a weight for every disk, weights and rates of single disks. Empty: no class."""

    weight: int | None = None
    weights: Rates = field(default_factory=dict[Disk, int])
    throttles: Mapping[str, Rates] = field(default_factory=dict[str, Rates])

    def __bool__(self) -> bool:
        return self.weight is not None or bool(self.weights) or bool(self.throttles)


NO_CLASS: Final = BlockioParameters()


class BadEntry(ValueError):
    """An entry is invalid. The message names the key and the accepted values."""


def read_classes(document: Any) -> tuple[dict[str, tuple[BlockioEntry, ...]], list[str]]:
    """Return the valid classes of a file, and the errors in the file or in its other classes."""
    if not isinstance(document, Mapping):
        return {}, ["not a mapping; write Classes: {NAME: [...]}"]
    found: dict[str, tuple[BlockioEntry, ...]] = {}
    findings: list[str] = []
    for key, value in document.items():
        if str(key).lower() != "classes":
            findings.append(f"{key}: there is no such field; write Classes")
        elif not isinstance(value, Mapping):
            findings.append(f"{key}: not a mapping from the names of classes to lists of entries")
        else:
            for name, entries in value.items():
                try:
                    found[str(name)] = _read_class(str(name), entries)
                except BadEntry as error:
                    findings.append(f"{key}.{name}{error}")
    return found, findings


def parameters(entries: Sequence[BlockioEntry], disks: Callable[[str], Sequence[Disk]]) -> BlockioParameters:
    """Return the parameters of a class; `disks` returns the disks of this host that match a pattern."""
    weight: int | None = None
    weights: dict[Disk, int] = {}
    throttles: dict[str, dict[Disk, int]] = {name: {} for name in THROTTLES}
    for entry in entries:
        if not entry.devices:
            weight = entry.weight
        for disk in (disk for pattern in entry.devices for disk in disks(pattern)):
            if entry.weight is not None:
                weights[disk] = entry.weight
            for name, rate in entry.throttles.items():
                throttles[name][disk] = rate
    stated = {name: {disk: rate for disk, rate in rates.items() if rate} for name, rates in throttles.items()}
    return BlockioParameters(weight, weights, {name: rates for name, rates in stated.items() if rates})


def oci(parameters: BlockioParameters) -> JsonObject:
    """Return the parameters as `linux.resources.blockIO` of an OCI specification."""
    found: JsonObject = {}
    if parameters.weight is not None:
        found["weight"] = parameters.weight
    if parameters.weights:
        found["weightDevice"] = [_of_disk(disk, "weight", amount) for disk, amount in parameters.weights.items()]
    for name, rates in parameters.throttles.items():
        found[f"throttle{name}Device"] = [_of_disk(disk, "rate", amount) for disk, amount in rates.items()]
    return found


def _of_disk(disk: Disk, what: str, amount: int) -> JsonObject:
    return {"major": disk[0], "minor": disk[1], what: amount}


def _read_class(name: str, entries: Any) -> tuple[BlockioEntry, ...]:
    if not name or names.label_value(name):
        raise BadEntry(": a name has 1 to 63 letters, digits and, inside, '-', '_', '.'")
    if not isinstance(entries, Sequence) or isinstance(entries, str | bytes):
        raise BadEntry(": not a list of entries")
    return tuple(_Entry(each, f"[{index}]").read() for index, each in enumerate(entries))


class _Entry:
    """Parser of one entry; `where` is the prefix of error messages."""

    def __init__(self, stated: Any, where: str) -> None:
        if not isinstance(stated, Mapping):
            raise BadEntry(f"{where}: not a mapping; write Devices, Weight or one of the throttles")
        self._where = where
        self._stated: dict[str, Any] = {}
        for key, value in stated.items():
            if (known := _KEYS.get(str(key).lower())) is None:
                raise BadEntry(f"{where}.{key}: there is no such field; write one of {', '.join(_KEYS.values())}")
            if value is not None:
                self._stated[known] = value

    def read(self) -> BlockioEntry:
        devices = tuple(self._devices())
        throttles = {name: rate for name in THROTTLES if (rate := self._amount(f"Throttle{name}")) is not None}
        if throttles and not devices:
            raise BadEntry(f"{self._where}.Throttle{next(iter(throttles))}: needs Devices, the disks it is for")
        weight = self._amount("Weight")
        if weight is not None and not MIN_WEIGHT <= weight <= MAX_WEIGHT:
            raise BadEntry(f"{self._where}.Weight: {weight} is not between {MIN_WEIGHT} and {MAX_WEIGHT}")
        return BlockioEntry(devices, weight, throttles)

    def _devices(self) -> Iterator[str]:
        stated = self._stated.get("Devices", [])
        if not isinstance(stated, Sequence) or isinstance(stated, str | bytes):
            raise BadEntry(f"{self._where}.Devices: not a list of paths such as /dev/sd*")
        for each in stated:
            if not isinstance(each, str) or not each.startswith("/"):
                raise BadEntry(f"{self._where}.Devices: {each!r} is not an absolute path such as /dev/sd*")
            yield each

    def _amount(self, key: str) -> int | None:
        if key not in self._stated:
            return None
        stated = self._stated[key]
        if not isinstance(stated, str | int | float) or stated == "":
            raise BadEntry(f"{self._where}.{key}: {stated!r} is not an amount such as 50M")
        try:
            amount = Quantity.parse(stated).value()
        except ValueError as error:
            raise BadEntry(f"{self._where}.{key}: {stated!r}: {error}") from error
        if not 0 <= amount <= _MAX_RATE:
            raise BadEntry(f"{self._where}.{key}: {stated!r} is not between 0, for no limit, and {_MAX_RATE}")
        return amount
