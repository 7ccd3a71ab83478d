"""A class of block I/O as cgroup v2 files, for runtimes that accept nothing else. Pure."""

from __future__ import annotations

from tarmac.decide.qosclasses.blockio import BlockioParameters
from tarmac.decide.qosclasses.iofiles import io_max_line, unified_weight


def unified(parameters: BlockioParameters) -> dict[str, str]:
    """Return files and their content. There is room for one disk: `discovery` offers no class that has more."""
    found: dict[str, str] = {}
    for disk in {disk: None for rates in parameters.throttles.values() for disk in rates}:
        found["io.max"] = io_max_line(disk, parameters.throttles)
    if parameters.weight is not None:
        found["io.weight"] = str(unified_weight(parameters.weight))
    return found
