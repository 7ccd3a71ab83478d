"""The plugin's report as the agent reads it, and the events that tell its changes."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from tarmac.client.eventrecorder import EventType


class GpuRow(msgspec.Struct, rename="camel"):
    """One GPU of the report. None: unknown."""

    uuid: str
    index: int
    product: str
    resource: str
    reason: str = ""
    xids: dict[str, int] = {}
    utilization: float | None = None
    memory_used: int | None = None
    memory_total: int | None = None
    power: float | None = None
    temperature: int | None = None


class GpuReport(msgspec.Struct, rename="camel"):
    """The plugin's report."""

    driver: str = ""
    without_nvml: str = ""
    without_xids: str = ""
    gpus: list[GpuRow] = []
    left_out: dict[str, str] = {}


def gpu_events(before: GpuReport, now: GpuReport) -> Iterator[tuple[EventType, str, str]]:
    """Yield type, reason and message of an event of the Node for each change."""
    if now.without_nvml and now.without_nvml != before.without_nvml:
        why = f"GPUs are offered without figures, and their health is unknown: {now.without_nvml}"
        yield "Warning", "NvmlUnavailable", why
    if now.without_xids and now.without_xids != before.without_xids:
        why = f"errors of GPUs (XIDs) are not seen, and their health is by NVML alone: {now.without_xids}"
        yield "Warning", "XidsUnavailable", why
    was = {row.uuid: row.reason for row in before.gpus}
    for row in now.gpus:
        name = f"{row.product} {row.uuid} ({row.resource})"
        if row.reason and row.reason != was.get(row.uuid):
            yield "Warning", "DeviceUnhealthy", f"{name}: {row.reason}"
        elif not row.reason and was.get(row.uuid):
            yield "Normal", "DeviceHealthy", f"{name} can be used again"
    for uuid, why in now.left_out.items():
        if uuid not in before.left_out:
            yield "Warning", "DeviceLeftOut", f"GPU {uuid} {why}"
