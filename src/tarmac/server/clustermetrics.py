"""Metrics about the health of the cluster, for alerts: store, leader, certificates, backup, nodes and disk.

All values are read at scrape time.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Container, Iterator, Mapping
from pathlib import Path

from tarmac import __version__
from tarmac.api.backups import BACKUPS_MAP, made_at
from tarmac.api.identities import NAMESPACE, PROCESS
from tarmac.base.clock import Clock, parse_rfc3339
from tarmac.base.metrics import Family, Sample
from tarmac.server.nodesummaries import NodeSummaries
from tarmac.server.reader import Reader
from tarmac.server.restored import count_conflicts
from tarmac.server.security.certificates.issuing import load_certificate
from tarmac.store.interface import Store


class ClusterMetrics:
    """Families for `/metrics`. `certificates` maps label to path; `tunnelled` contains the nodes with a tunnel."""

    def __init__(
        self,
        store: Store,
        clock: Clock,
        nodes: NodeSummaries,
        certificates: Mapping[str, Path],
        data: Path,
        tunnelled: Container[str],
    ) -> None:
        self._store = store
        self._reader = Reader(store)
        self._clock = clock
        self._certificates = certificates
        self._data = data
        self._tunnelled = tunnelled
        self._nodes = nodes

    def families(self) -> Iterator[Family]:
        """Yield all families; called at each scrape."""
        yield _one("tarmac_build_info", "Which Tarmac this is; always 1.", 1, ("version", __version__))
        available = self._store.checks()["store"]() is None
        yield _one("tarmac_store_available", "Whether the store takes writes.", int(available))
        name = "tarmac_etcd_member_responds"
        members = [(name, [("name", each)], int(answers)) for each, answers in self._store.members().items()]
        yield name, "gauge", "Whether a voting member of an etcd that Tarmac runs responds.", members
        yield from self._certificate_family()
        yield from self._backup_family()
        yield from self._node_families()
        name = "tarmac_restored_conflicts"
        yield _one(name, "Running pods that a restored store has otherwise.", count_conflicts(self._store))
        name = "tarmac_disk_available_bytes"
        # `f_bavail`, not `f_bfree`: blocks reserved for root are no room for a server that runs as another user
        # (statvfs(3)).
        found = os.statvfs(self._data)
        yield _one(name, "Room on the disk of the data directory.", found.f_bavail * found.f_frsize, ("name", "data"))

    def _certificate_family(self) -> Iterator[Family]:
        name, now = "tarmac_certificate_expiry_seconds", self._clock.now()
        samples: list[Sample] = []
        for each, path in self._certificates.items():
            try:
                ends = load_certificate(path.read_bytes()).not_valid_after_utc.timestamp()
            # A certificate that another process replaces just now is read again with the next scrape.
            except (OSError, ValueError):  # not created yet
                continue
            samples.append((name, [("name", each)], ends - now))
        yield name, "gauge", "Seconds until a certificate ends; below 0 when it has.", samples

    def _backup_family(self) -> Iterator[Family]:
        """Yield the age of the newest backup. No sample without a backup: an age of 0 would claim a fresh one."""
        record = self._reader.get("core/configmaps", f"{NAMESPACE}/{BACKUPS_MAP}")
        made = made_at(record.get("data") or {}) if record is not None else None
        if made is not None:
            age = max(0.0, self._clock.now() - made)
            yield _one("tarmac_backup_age_seconds", "How old the newest backup is.", age)

    def _node_families(self) -> Iterator[Family]:
        nodes = self._nodes.all()
        name = "tarmac_node_ready"
        ready = [(name, [("node", node.name), ("location", node.location)], int(node.ready)) for node in nodes]
        yield name, "gauge", "Whether a node is ready.", ready
        name = "tarmac_node_tunnel"
        tunnels = [(name, [("node", node.name)], int(node.name in self._tunnelled)) for node in nodes]
        yield name, "gauge", "Whether a node has a tunnel to this server.", tunnels


def leader_metrics(store: Store, clock: Clock, leading: Callable[[], bool | None]) -> Iterator[Family]:
    """Yield `tarmac_leader`. `leading` returns None in a process without controllers; then their Lease is read."""
    here = leading()
    held = _lease_is_held(Reader(store), clock) if here is None else here
    yield _one("tarmac_leader", "Whether controllers lead here, or apart from any server.", int(held))


def _lease_is_held(reader: Reader, clock: Clock) -> bool:
    """Return whether the Lease is held.

    Compares two hosts' wall clocks: good enough for a metric, not for decisions.
    """
    lease = reader.get("coordination.k8s.io/leases", f"{NAMESPACE}/{PROCESS}")
    spec = (lease or {}).get("spec") or {}
    try:
        renewed = parse_rfc3339(spec.get("renewTime") or "")
    except ValueError:
        return False
    return bool(spec.get("holderIdentity")) and clock.now() - renewed < (spec.get("leaseDurationSeconds") or 0)


def _one(name: str, description: str, value: float, *labels: tuple[str, str]) -> Family:
    return name, "gauge", description, [(name, labels, value)]
