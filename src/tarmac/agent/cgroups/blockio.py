"""Block I/O limits of cgroups, in the files of v1 and v2.

Only differences are written, one disk per write: the kernel accepts one line per write. A file is read before it is
written, so verifying correct limits costs only reads. Weights need the disk scheduler bfq, or on v2 a kernel with
`io.weight`; without a file for weights they cannot be set and are reported as not in effect.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from tarmac.agent.cgroups.hierarchy import CgroupError, attempt
from tarmac.decide.qosclasses.blockio import THROTTLES, BlockioParameters, Rates
from tarmac.decide.qosclasses.iofiles import (
    USUAL_WEIGHT,
    io_max_changes,
    rate_changes,
    read_io_max,
    read_rates,
    read_weights,
    unified_weight,
    weight_changes,
)

_RATE_FILES: Final = dict(
    zip(
        THROTTLES,
        (f"blkio.throttle.{each}_device" for each in ("read_bps", "write_bps", "read_iops", "write_iops")),
        strict=True,
    )
)


class BlkioV1:
    """Block I/O limits on the v1 controller blkio."""

    def __init__(self, top: Path) -> None:
        self._top = top

    def has(self, path: str, parameters: BlockioParameters) -> bool:
        group = self._top / path.lstrip("/")
        try:
            rates = {name: read_rates(_text(group / file)) for name, file in _RATE_FILES.items()}
        except CgroupError:
            return False
        found = {name: each for name, each in rates.items() if each}
        return found == parameters.throttles and _Weights(group, "blkio.", "_device").have(parameters)

    def put(self, path: str, parameters: BlockioParameters) -> None:
        group = self._top / path.lstrip("/")
        for name, file in _RATE_FILES.items():
            wanted = parameters.throttles.get(name, {})
            for line in rate_changes(read_rates(_text(group / file)), wanted):
                attempt(group / file, line)
        _Weights(group, "blkio.", "_device").put(parameters)


class IoV2:
    """Block I/O limits on the v2 hierarchy."""

    def __init__(self, top: Path) -> None:
        self._top = top

    def has(self, path: str, parameters: BlockioParameters) -> bool:
        group = self._top / path.lstrip("/")
        try:
            found = read_io_max(_text(group / "io.max"))
        except CgroupError:
            return False
        return found == parameters.throttles and _Weights(group, "io.", "").have(parameters)

    def put(self, path: str, parameters: BlockioParameters) -> None:
        group = self._top / path.lstrip("/")
        for line in io_max_changes(read_io_max(_text(group / "io.max")), parameters.throttles):
            attempt(group / "io.max", line)
        _Weights(group, "io.", "").put(parameters)


class _Weights:
    """The weights of a group: in the files of bfq, else in the controller's own."""

    def __init__(self, group: Path, prefix: str, of_devices: str) -> None:
        # Looked up at each use: the files of bfq come and go with its kernel module.
        bfq = group / f"{prefix}bfq.weight"
        self._file = bfq if bfq.exists() else group / f"{prefix}weight"
        self._of_devices = self._file.with_name(f"{self._file.name}{of_devices}")
        self._unified = self._file.name == "io.weight"

    def have(self, parameters: BlockioParameters) -> bool:
        if parameters.weight is None and not parameters.weights:
            return True
        if not self._file.exists():
            return False
        weight, weights = self._now()
        usual = parameters.weight is None or weight == self._scaled(parameters.weight)
        return usual and weights == self._all_scaled(parameters.weights)

    def put(self, parameters: BlockioParameters) -> None:
        if not self._file.exists():
            if parameters.weight is not None or parameters.weights:
                raise CgroupError(f"{self._file}: there is no such file: weights need the disk's scheduler to be bfq")
            return
        weight, weights = self._now()
        wanted = USUAL_WEIGHT if parameters.weight is None else self._scaled(parameters.weight)
        if weight != wanted:
            attempt(self._file, str(wanted))
        for line in weight_changes(weights, self._all_scaled(parameters.weights)):
            attempt(self._of_devices, line)

    def _now(self) -> tuple[int | None, Rates]:
        weight, weights = read_weights(_text(self._file))
        if self._of_devices == self._file or not self._of_devices.exists():
            return weight, weights
        return weight, read_weights(_text(self._of_devices))[1]

    def _scaled(self, weight: int) -> int:
        return unified_weight(weight) if self._unified else weight

    def _all_scaled(self, weights: Rates) -> Rates:
        return {disk: self._scaled(weight) for disk, weight in weights.items()}


def _text(file: Path) -> str:
    """Read a file of a group. Raises CgroupError."""
    try:
        return file.read_text()
    except OSError as error:
        raise CgroupError(f"{file}: {error.strerror}") from error
