"""What one explanation or plan has seen of a world so far: read once, however many objects are looked at."""

from __future__ import annotations

from functools import cached_property

import msgspec

from tarmac.api.compute.names import LABEL_DEPLOYMENT_UID
from tarmac.decide.explain.places import places_of
from tarmac.decide.explain.quotas import Ledger, ledger_of
from tarmac.decide.explain.stage import Stage
from tarmac.decide.explain.world import INSTANCES, World
from tarmac.decide.instances import InstanceFacts, InstanceView
from tarmac.decide.placement import Place

_facts = msgspec.json.Decoder(InstanceFacts).decode

Fleets = dict[str, list[InstanceView]]
"""Instances by the uid of their deployment."""


class Sight:
    """A world under one pair of eyes."""

    def __init__(self, world: World) -> None:
        self.world = world
        self._stages: dict[str, Stage] = {}
        self._fleets: dict[str, Fleets] = {}
        self._ledgers: dict[str, Ledger | None] = {}

    @cached_property
    def places(self) -> list[Place]:
        """Every Location, without what is free there."""
        return places_of(self.world)

    def stage(self, location: str) -> Stage:
        """The nodes of a Location and what is on them; of all, when no Location is named."""
        stage = self._stages.get(location)
        if stage is None:
            stage = self._stages[location] = Stage(self.world, [location] if location else None)
        return stage

    def ledger(self, namespace: str) -> Ledger | None:
        """What the quotas of a namespace leave; None where nothing is limited."""
        if namespace not in self._ledgers:
            self._ledgers[namespace] = ledger_of(self.world, namespace)
        return self._ledgers[namespace]

    def fleet(self, namespace: str, deployment_uid: str) -> list[InstanceView]:
        """The Instances of a deployment."""
        fleets = self._fleets.get(namespace)
        if fleets is None:
            fleets = self._fleets[namespace] = {}
            for each in map(_facts, self.world.list(INSTANCES.resource, namespace)):
                uid = each.metadata.labels.get(LABEL_DEPLOYMENT_UID, "")
                fleets.setdefault(uid, []).append(InstanceView.of(each))
        return fleets.get(deployment_uid, [])
