"""Merges the metrics of several processes: `/metrics` of any worker reports all of them.

Counters are summed. Values that every process reads from the same source (objects in the store, expiry of a
certificate) differ only for a moment: the largest is reported, or the smallest where a process may report a failure
(the store, a check). Metrics about a process itself get a label with its number.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from tarmac.base.metrics import Family, Sample

PROCESS: Final = "process"
_MAXIMA: Final = frozenset({
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
_MINIMA: Final = frozenset({"kubernetes_healthcheck", "tarmac_etcd_member_responds", "tarmac_store_available"})

Labels = tuple[tuple[str, str], ...]


def encode_families(families: Iterable[Family]) -> list[Family]:
    """Return the families in a form that can be encoded for another process: iterators become lists."""
    return [
        (name, kind, text, [(each, list(labels), value) for each, labels, value in samples])
        for name, kind, text, samples in families
    ]


def merged_families(processes: Mapping[int, Iterable[Family]]) -> list[Family]:
    """Merge the families of all processes, given by process number."""
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
        elif family in _MAXIMA:
            into[key] = max(before, value)
        elif family in _MINIMA:
            into[key] = min(before, value)
        else:
            into[key] = before + value


def _samples(values: Mapping[tuple[str, Labels], float]) -> list[Sample]:
    return [(name, labels, value) for (name, labels), value in values.items()]
