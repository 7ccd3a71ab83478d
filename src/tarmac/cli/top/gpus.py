"""`tarmac top --gpu`: a row for each GPU, from the metrics of the nodes that have some.

The metrics are read through the API server (`nodes/proxy`). A node that does not answer, or may not be asked, has one
row with the number of its GPUs.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Final

from tarmac.api.kubernetes.runtimeclasses import PROXIED_PREFIX
from tarmac.api.schema import JsonObject
from tarmac.api.status import ApiError
from tarmac.cli.rendering.text import table
from tarmac.cli.verbs.console import Console
from tarmac.client.client import Client

HEADERS: Final = ("NODE", "GPU", "MODEL", "GPU%", "MEMORY", "POWER", "TEMPERATURE", "HEALTH", "POD")
_PREFIX: Final = "tarmac_gpu_"
_MAX_LINES: Final = 200_000
_MAX_GPUS: Final = 64  # of one node: its answer is not trusted
_MAX_LABEL: Final = 128  # characters; a longer one would widen the table of all nodes
_MAX_VALUE: Final = 1e18
_AT_ONCE: Final = 16
_LINE: Final = re.compile(r'(tarmac_gpu_[a-z_]+)\{((?:[a-z]+="(?:[^"\\]|\\.)*",?)*)\} (\S+)')
_LABEL: Final = re.compile(r'([a-z]+)="((?:[^"\\]|\\.)*)"')
_GIBI: Final = 1 << 30
_NONE: Final = "-"


@dataclass(slots=True)
class GpuUsage:
    """One GPU, or the GPUs of a node that did not answer. `figures` are metrics by name, without the prefix."""

    node: str
    gpu: str
    model: str
    namespace: str = ""
    pod: str = ""
    reason: str = ""
    figures: dict[str, float] = field(default_factory=dict[str, float])


async def gpu_rows(client: Client, nodes: Iterable[JsonObject], console: Console) -> list[GpuUsage]:
    """Return the GPUs of these nodes, in their order."""
    few = asyncio.Semaphore(_AT_ONCE)

    async def of(node: JsonObject) -> list[GpuUsage]:
        async with few:
            return await _of_node(client, node, console)

    return [row for rows in await asyncio.gather(*(of(node) for node in nodes if _gpus_of(node))) for row in rows]


async def _of_node(client: Client, node: JsonObject, console: Console) -> list[GpuUsage]:
    name = node["metadata"]["name"]
    try:
        body = (await client.call("GET", f"/api/v1/nodes/{name}/proxy/metrics")).body
    except ApiError as error:
        console.warn(f"metrics of node {name} cannot be read ({error.message}), so its GPUs have no figures")
        body = b""
    return parsed(name, body.decode(errors="replace")) or _without_figures(name, node)


def parsed(node: str, text: str) -> list[GpuUsage]:
    """Return the GPUs in a node's metrics."""
    found: dict[str, GpuUsage] = {}
    for line in text.split("\n", _MAX_LINES)[:_MAX_LINES]:
        if not line.startswith(_PREFIX) or not (match := _LINE.fullmatch(line)):
            continue
        labels = {name: _unescaped(value)[:_MAX_LABEL] for name, value in _LABEL.findall(match[2])}
        try:
            value = float(match[3])
        except ValueError:
            continue
        if not abs(value) <= _MAX_VALUE or (len(found) >= _MAX_GPUS and labels.get("gpu") not in found):
            continue
        fresh = GpuUsage(node, labels.get("index", ""), labels.get("model", ""))
        row = found.setdefault(labels.get("gpu", ""), fresh)
        row.namespace, row.pod = labels.get("namespace", ""), labels.get("pod", "")
        row.reason = labels.get("reason", row.reason)
        row.figures[match[1].removeprefix(_PREFIX) + labels.get("state", "") + labels.get("xid", "")] = value
    return sorted(found.values(), key=lambda row: row.gpu.rjust(4))


def gpu_table(rows: Iterable[GpuUsage]) -> str:
    """Return the table."""
    return table(HEADERS, [_cells(row) for row in rows]) + "\n"


def gpu_document(rows: Iterable[GpuUsage]) -> dict[str, Any]:
    """Return the JSON document. Unknown values are null."""
    names = ("utilization_ratio", "memory_bytesused", "memory_bytestotal", "power_watts", "temperature_celsius")
    keys = ("utilization", "memoryUsed", "memoryTotal", "powerWatts", "temperatureCelsius")
    return {
        "gpus": [
            {
                "node": row.node, "gpu": row.gpu, "model": row.model, "namespace": row.namespace or None,
                "pod": row.pod or None, "reason": row.reason or None,
                "healthy": not row.reason if row.figures else None,
                **{key: row.figures.get(name) for key, name in zip(keys, names, strict=True)},
            }
            for row in rows
        ]
    }  # fmt: skip


def _without_figures(name: str, node: JsonObject) -> list[GpuUsage]:
    status = node.get("status") or {}
    ready = status.get("allocatable") or {}
    return [
        GpuUsage(name, f"{ready.get(resource, 0)} of {number}", resource.removeprefix(PROXIED_PREFIX))
        for resource, number in sorted(_gpus_of(node).items())[:_MAX_GPUS]
    ]


def _gpus_of(node: JsonObject) -> dict[str, str]:
    capacity = (node.get("status") or {}).get("capacity") or {}
    amounts = ((name, str(number)) for name, number in capacity.items() if name.startswith(PROXIED_PREFIX))
    return {name: number for name, number in amounts if number != "0"}


def _cells(row: GpuUsage) -> tuple[str, ...]:
    figures = row.figures
    used, total = figures.get("memory_bytesused"), figures.get("memory_bytestotal")
    return (
        row.node,
        row.gpu,
        row.model,
        _shown(figures.get("utilization_ratio"), lambda value: f"{100 * value:.0f}%"),
        _NONE if used is None or total is None else f"{used / _GIBI:.1f}/{total / _GIBI:.0f}Gi",
        _shown(figures.get("power_watts"), lambda value: f"{value:.0f}W"),
        _shown(figures.get("temperature_celsius"), lambda value: f"{value:.0f}°C"),
        (row.reason or "Healthy") if figures else "Unknown",
        f"{row.namespace}/{row.pod}" if row.pod else _NONE,
    )


def _shown(value: float | None, words: Any) -> str:
    return _NONE if value is None else words(value)


def _unescaped(text: str) -> str:
    return text.replace("\\n", " ").replace('\\"', '"').replace("\\\\", "\\")
