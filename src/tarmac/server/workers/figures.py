"""One set of figures of several processes: `/metrics` of whoever is asked tells of all of them.

What each process counts for itself is added up. What each knows of the same thing (objects in the store, a
certificate's end) is the same everywhere but for a moment: there the largest is told, and where a process may say that
something is not well (the store, a check), the smallest. Figures of a process itself get a label with its number.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from tarmac.base.metrics import Family, Sample

PROCESS: Final = "process"
_LARGEST: Final = frozenset({
    "apiserver_storage_objects",
    "apiserver_storage_revision",
    "tarmac_backup_age_seconds",
    "tarmac_build_info",
    "tarmac_disk_available_bytes",
    "tarmac_node_ready",
    "tarmac_node_tunnel",
    "tarmac_restored_conflicts",
    "tarmac_certificate_expiry_seconds",
})  # fmt: skip
_SMALLEST: Final = frozenset({"kubernetes_healthcheck", "tarmac_store_available"})

Labels = tuple[tuple[str, str], ...]


def told(families: Iterable[Family]) -> list[Family]:
    """Families as they are sent to another process: nothing in them that can be read only once."""
    return [
        (name, kind, text, [(each, list(labels), value) for each, labels, value in samples])
        for name, kind, text, samples in families
    ]


def added_up(processes: Mapping[int, Iterable[Family]]) -> list[Family]:
    """The families of all processes, by their numbers, as one."""
    heads: dict[str, tuple[str, str]] = {}
    values: dict[str, dict[tuple[str, Labels], float]] = {}
    for number, families in sorted(processes.items()):
        for name, kind, text, samples in families:
            heads.setdefault(name, (kind, text))
            _add(values.setdefault(name, {}), name, number, samples)
    return [(name, kind, text, _samples(values[name])) for name, (kind, text) in heads.items()]


def _add(into: dict[tuple[str, Labels], float], family: str, number: int, samples: Iterable[Sample]) -> None:
    for name, pairs, value in samples:
        labels: Labels = tuple((key, text) for key, text in pairs)
        if family.startswith("process_"):
            labels = (*labels, (PROCESS, str(number)))
        key = name, labels
        before = into.get(key)
        if before is None:
            into[key] = value
        elif family in _LARGEST:
            into[key] = max(before, value)
        elif family in _SMALLEST:
            into[key] = min(before, value)
        else:
            into[key] = before + value


def _samples(values: Mapping[tuple[str, Labels], float]) -> list[Sample]:
    return [(name, labels, value) for (name, labels), value in values.items()]
