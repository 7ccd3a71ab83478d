"""Where the parts of the real driver come together."""

from __future__ import annotations

import os

from tarmac.base.clock import Clock
from tarmac.volumes.driver import PodVolumes
from tarmac.volumes.interface import Sources
from tarmac.volumes.layout import Layout
from tarmac.volumes.linux.medium import LinuxMedium
from tarmac.volumes.node import Facts


def linux_volumes(root: str, sources: Sources, facts: Facts, clock: Clock) -> PodVolumes:
    """The volumes of a node under its root folder. `start` it before use."""
    os.makedirs(root, 0o750, exist_ok=True)
    layout = Layout(root)
    return PodVolumes(layout, LinuxMedium(layout), sources, facts, clock)
