"""What one explanation or plan has seen of a world so far: read once, however many objects are looked at."""

from __future__ import annotations

from functools import cached_property

import msgspec

from tarmac.api.compute.names import LABEL_DEPLOYMENT_UID
from tarmac.decide.instances import InstanceFacts, InstanceView
from tarmac.decide.placement import Place
from tarmac.decide.snapshot.candidates import CandidateNodes
from tarmac.decide.snapshot.places import places_of
from tarmac.decide.snapshot.quotas import QuotaLedger, ledger_of
from tarmac.decide.snapshot.snapshot import INSTANCES, Snapshot

_facts = msgspec.json.Decoder(InstanceFacts).decode

Fleets = dict[str, list[InstanceView]]
"""Instances by the uid of their deployment."""


class CachedReads:
    """A world under one pair of eyes."""

    def __init__(self, snapshot: Snapshot) -> None:
        self.snapshot = snapshot
        self._candidates: dict[str, CandidateNodes] = {}
        self._fleets: dict[str, Fleets] = {}
        self._ledgers: dict[str, QuotaLedger | None] = {}

    @cached_property
    def places(self) -> list[Place]:
        """Every Location, without what is free there."""
        return places_of(self.snapshot)

    def candidates(self, location: str) -> CandidateNodes:
        """The nodes of a Location and what is on them; of all, when no Location is named."""
        candidates = self._candidates.get(location)
        if candidates is None:
            candidates = self._candidates[location] = CandidateNodes(self.snapshot, [location] if location else None)
        return candidates

    def ledger(self, namespace: str) -> QuotaLedger | None:
        """What the quotas of a namespace leave; None where nothing is limited."""
        if namespace not in self._ledgers:
            self._ledgers[namespace] = ledger_of(self.snapshot, namespace)
        return self._ledgers[namespace]

    def fleet(self, namespace: str, deployment_uid: str) -> list[InstanceView]:
        """The Instances of a deployment."""
        fleets = self._fleets.get(namespace)
        if fleets is None:
            fleets = self._fleets[namespace] = {}
            for each in map(_facts, self.snapshot.list(INSTANCES.resource, namespace)):
                uid = each.metadata.labels.get(LABEL_DEPLOYMENT_UID, "")
                fleets.setdefault(uid, []).append(InstanceView.of(each))
        return fleets.get(deployment_uid, [])
