"""All GPUs of the machine: their health, and the figures of the last look.

A GPU is unhealthy when the driver no longer lists it, a device node is gone, NVML says that it is lost or needs repair,
or after a critical XID. It is healthy again when the driver needs no repair, or, where the driver cannot tell, when
`QUIET` seconds have passed without a critical XID. While NVML gives no sample, a problem that it reported stays. The
last critical XID survives a restart of the program by the report, but not one of the machine.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from tarmac.agent.devices.nvidia.kerneldriver import Gpu, missing_node
from tarmac.agent.devices.nvidia.kernellog import Slot, slot_of
from tarmac.agent.devices.nvidia.samples import GpuSample
from tarmac.agent.devices.nvidia.xids import is_critical, reason_of

QUIET: Final = 600.0
"""Seconds without a critical XID after which a driver that cannot tell is believed to have recovered."""
SETTLE: Final = 10.0
"""Seconds after an XID before the driver's word counts: its recovery action follows the error."""
MIG: Final = "is in MIG mode, which is not offered; switch it off with nvidia-smi --multi-instance-gpu=0"


@dataclass(slots=True)
class GpuState:
    """One GPU. `reason` says why it is unhealthy; empty for a healthy one."""

    gpu: Gpu
    sample: GpuSample | None = None
    reason: str = ""
    xids: Counter[int] = field(default_factory=Counter[int])
    critical: tuple[int, float] | None = None  # the last critical XID, and its time

    @property
    def healthy(self) -> bool:
        """Return True if it may be given to containers."""
        return not self.reason


class GpuStates:
    """Judges the GPUs. `now` is the wall clock."""

    def __init__(
        self, root: Path, now: Callable[[], float], critical: Mapping[str, tuple[int, float]] | None = None
    ) -> None:
        self._root = root
        self._now = now
        self._before = critical or {}
        self.states: dict[str, GpuState] = {}
        """By UUID, in the order of their minor numbers."""
        self.left_out: dict[str, str] = {}
        """GPUs that are not offered, and the reason."""

    def apply(self, found: Iterable[Gpu], samples: Mapping[str, GpuSample] | None) -> bool:
        """Take over a look; None: NVML gave no sample. Return True if GPUs came, or the health of one changed."""
        before = {uuid: state.healthy for uuid, state in self.states.items()}
        listed = {gpu.uuid: gpu for gpu in found}
        if samples is None:
            samples = {uuid: last.outdated() for uuid, last in self._last_samples()}
            self.left_out = {uuid: why for uuid, why in self.left_out.items() if uuid in listed}
        else:
            self.left_out = {uuid: MIG for uuid in listed if (sample := samples.get(uuid)) is not None and sample.mig}
        for uuid, gpu in listed.items():
            if uuid not in self.left_out:
                state = self.states.setdefault(uuid, GpuState(gpu, critical=self._before.get(uuid)))
                state.gpu, state.sample = gpu, samples.get(uuid)
        for uuid in self.left_out:
            self.states.pop(uuid, None)
        for uuid, state in self.states.items():
            state.reason = self._problem(state, listed=uuid in listed)
        self.states = dict(sorted(self.states.items(), key=lambda item: item[1].gpu.minor))
        return before != {uuid: state.healthy for uuid, state in self.states.items()}

    def on_xid(self, slot: Slot, xid: int) -> bool:
        """Record an error of the GPU in a slot. Return True if its health changed."""
        # A GPU that is not offered has none here: it must not take another one out.
        state = next((each for each in self.states.values() if slot_of(each.gpu.bus) == slot), None)
        if state is None:
            return False
        state.xids[xid] += 1
        if not is_critical(xid):
            return False
        before = state.healthy
        state.critical = (xid, self._now())
        state.reason = reason_of(xid)
        return before

    def _last_samples(self) -> Iterator[tuple[str, GpuSample]]:
        return ((uuid, state.sample) for uuid, state in self.states.items() if state.sample is not None)

    def _problem(self, state: GpuState, *, listed: bool) -> str:
        """Return why a GPU is unhealthy, or an empty string."""
        if not listed:
            return "the driver no longer lists it"
        if missing := missing_node(state.gpu, self._root):
            return f"device node {missing} is missing"
        sample = state.sample
        if sample is not None and not sample.alive:
            return "NVML reports that it is lost"
        if state.critical is not None and not self._recovered(state.critical[1], sample):
            return reason_of(state.critical[0])
        state.critical = None
        if sample is not None and sample.needs_repair:
            return "the driver asks for a reset of it, or a restart of the machine"
        return ""

    def _recovered(self, at: float, sample: GpuSample | None) -> bool:
        passed = self._now() - at
        if sample is not None and sample.needs_repair is not None:
            return passed >= SETTLE and not sample.needs_repair
        return passed >= QUIET
