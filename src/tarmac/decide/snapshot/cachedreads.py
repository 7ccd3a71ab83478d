"""Caches the reads of one explanation or plan: each is computed once, regardless of the number of objects explained."""

from __future__ import annotations

from functools import cached_property

import msgspec

from tarmac.api.compute.names import LABEL_DEPLOYMENT_UID
from tarmac.decide.instances import InstanceFacts, InstanceView
from tarmac.decide.placement import LocationView
from tarmac.decide.snapshot.candidates import CandidateNodes
from tarmac.decide.snapshot.places import places_of
from tarmac.decide.snapshot.quotas import QuotaSnapshot, ledger_of
from tarmac.decide.snapshot.snapshot import INSTANCES, Snapshot

_facts = msgspec.json.Decoder(InstanceFacts).decode

Fleets = dict[str, list[InstanceView]]
"""Instances by the uid of their deployment."""


class CachedReads:
    """Cached reads of one snapshot."""

    def __init__(self, snapshot: Snapshot) -> None:
        self.snapshot = snapshot
        self._candidates: dict[str, CandidateNodes] = {}
        self._fleets: dict[str, Fleets] = {}
        self._ledgers: dict[str, QuotaSnapshot | None] = {}

    @cached_property
    def places(self) -> list[LocationView]:
        """Every Location, without its free capacity."""
        return places_of(self.snapshot)

    def candidates(self, location: str) -> CandidateNodes:
        """Return the nodes of a Location and their pods; all nodes if `location` is empty."""
        candidates = self._candidates.get(location)
        if candidates is None:
            candidates = self._candidates[location] = CandidateNodes(self.snapshot, [location] if location else None)
        return candidates

    def ledger(self, namespace: str) -> QuotaSnapshot | None:
        """Return the quota ledger of a namespace; None if it has no quota."""
        if namespace not in self._ledgers:
            self._ledgers[namespace] = ledger_of(self.snapshot, namespace)
        return self._ledgers[namespace]

    def fleet(self, namespace: str, deployment_uid: str) -> list[InstanceView]:
        """Return the Instances of a deployment."""
        fleets = self._fleets.get(namespace)
        if fleets is None:
            fleets = self._fleets[namespace] = {}
            for each in map(_facts, self.snapshot.list(INSTANCES.resource, namespace)):
                uid = each.metadata.labels.get(LABEL_DEPLOYMENT_UID, "")
                fleets.setdefault(uid, []).append(InstanceView.of(each))
        return fleets.get(deployment_uid, [])
