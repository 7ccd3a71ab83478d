"""Index of inbound ports: which ExternalService opens a port of an address to a target, the oldest first.

One ExternalService is compared with the index and not with all others that share its addresses, so n of them cost
n log n and not n³.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache

from tarmac.api.egress.externalservice import ExternalService
from tarmac.api.egress.names import Address
from tarmac.decide.egress.views import EgressLookup

Key = tuple[Address, str, str, int]
"""Target, address, protocol and port."""

Rank = tuple[str, str, str]
_NOT_CREATED = "~"  # after every timestamp: a planned ExternalService is the youngest


@dataclass(frozen=True, slots=True)
class Opening:
    """A port that an ExternalService (`by`) leads to a Service; both as namespace/name."""

    rank: Rank
    by: str
    service: str


def name_of(service: ExternalService) -> str:
    """Return namespace/name."""
    return f"{service.metadata.namespace}/{service.metadata.name}"


class Openings:
    """The ports that ExternalServices would open, regardless of conflicts. Starts empty, for one resolution."""

    def __init__(self) -> None:
        self._of: dict[str, dict[Key, Opening]] = {}
        self._lines: dict[Key, list[Opening]] = {}
        self.moved: set[str] = set()  # ExternalServices that have gained or lost a port by changes of others

    def unknown(self, addresses: Iterable[str], world: EgressLookup) -> Iterable[ExternalService]:
        """Return the users of these SourceIPs that have to be put before `first` can be asked."""
        users = {name_of(each): each for name in addresses for each in world.users(name)}
        return [each for name, each in users.items() if name not in self._of]

    def first(self, key: Key) -> Opening | None:
        """Return the opening that takes precedence."""
        line = self._lines.get(key)
        return line[0] if line else None

    def put(self, service: ExternalService, wanted: Mapping[Key, str]) -> None:
        """Set the ports of an ExternalService, with the Service that each leads to."""
        own, by = service.metadata, name_of(service)
        rank = (own.creation_timestamp or _NOT_CREATED, own.namespace, own.name)
        after = {key: Opening(rank, by, led) for key, led in wanted.items()}
        before = self._of.get(by, {})
        self._of[by] = after
        for key in before.keys() | after.keys():
            if before.get(key) != after.get(key):
                self._replace(key, before.get(key), after.get(key))

    def drop(self, by: str) -> None:
        """Remove an ExternalService."""
        for key, opening in self._of.pop(by, {}).items():
            self._replace(key, opening, None)

    def _replace(self, key: Key, before: Opening | None, after: Opening | None) -> None:
        line = self._lines.setdefault(key, [])
        was_first = line[0] if line else None
        if before is not None:
            del line[bisect_left(line, before.rank, key=_rank)]
        if after is not None:
            insort(line, after, key=_rank)
        changed = {each.by for each in (was_first, line[0] if line else None) if each is not None}
        if was_first is not (line[0] if line else None):
            self.moved |= changed - {each.by for each in (before, after) if each is not None}
        if not line:
            del self._lines[key]


def _rank(opening: Opening) -> Rank:
    return opening.rank


class Remembered:
    """A `EgressLookup` that looks up the costly objects once. For one resolution."""

    def __init__(self, world: EgressLookup) -> None:
        self.users, self.service, self.candidates = cache(world.users), cache(world.service), cache(world.candidates)
        self.allowed_from, self.pod, self.node = world.allowed_from, world.pod, world.node
        self.claim, self.claim_holding, self.source_ip = world.claim, world.claim_holding, world.source_ip
        self.address_class, self.authorized = world.address_class, world.authorized
        self.has_location, self.inside = world.has_location, world.inside
