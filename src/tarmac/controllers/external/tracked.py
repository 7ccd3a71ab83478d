"""What many decisions ask of all objects, kept as they change, so that one decision does not decode all of them.

Transit numbers, identities and dialled addresses that are taken, which node carries which address, and every node as
external services see it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Container, Mapping
from typing import Any

from tarmac.api.schema import JsonObject
from tarmac.api.submariner.externalservice import ExternalService
from tarmac.api.submariner.names import Address, node_digits
from tarmac.api.submariner.relays import Forwarder, Gateway
from tarmac.api.submariner.sourceip import SourceIP
from tarmac.client.cache import Item
from tarmac.decide.egress.numbers import transit_number
from tarmac.decide.egress.reading import node_addresses, node_view
from tarmac.decide.egress.status import owner_of
from tarmac.decide.egress.views import NodeView


def service_key(forwarder: Forwarder) -> str:
    """The ExternalService, as namespace/name, that a Forwarder is of."""
    owner = forwarder.spec.external_service
    return f"{owner.namespace}/{owner.name}" if owner is not None else ""


class Transits:
    """Who has which transit number. What was written a moment ago counts before the cache shows it."""

    def __init__(self) -> None:
        self._holder: dict[int, str] = {}  # number -> ExternalService
        self._numbers: dict[str, set[int]] = {}  # Forwarder -> its numbers

    def put(self, key: str, forwarder: Forwarder | None) -> None:
        """A Forwarder as it is now; None when it is gone."""
        for number in self._numbers.pop(key, ()):
            self._holder.pop(number, None)
        if forwarder is not None:
            rules = (*forwarder.spec.egress_rules, *forwarder.spec.ingress_rules)
            numbers = {transit_number(rule.transit_ip) for rule in rules if rule.transit_ip}
            self._numbers[key] = numbers
            self._holder.update(dict.fromkeys(numbers, service_key(forwarder)))

    def changed(self, old: Item[Forwarder] | None, new: Item[Forwarder] | None) -> None:
        """Follow the cache."""
        item = new or old
        if item is not None:
            self.put(item.key, new.object if new is not None else None)

    def of_others(self, service: str) -> Container[int]:
        """The numbers that others than an ExternalService have."""
        return _Others(self._holder, service)


class _Others:
    """What others than one hold of something: numbers, or addresses."""

    def __init__(self, holder: Mapping[Any, str], own: str) -> None:
        self._holder, self._own = holder, own

    def __contains__(self, what: object) -> bool:
        return self._holder.get(what, self._own) != self._own


class Identities:
    """Which identities of addresses are taken."""

    def __init__(self) -> None:
        self.taken: set[int] = set()
        self._by_name: dict[str, int] = {}

    def put(self, name: str, number: int) -> None:
        """The identity of an address; zero when it has none, or is gone."""
        self.taken.discard(self._by_name.pop(name, 0))
        if number:
            self._by_name[name] = number
            self.taken.add(number)

    def changed(self, old: Item[SourceIP] | None, new: Item[SourceIP] | None) -> None:
        """Follow the cache. One that was given a moment ago is not in every version that is still to come."""
        if new is not None and new.object.status is not None and new.object.status.id:
            self.put(new.key, new.object.status.id)
        elif new is None and old is not None:
            self.put(old.key, 0)


class Dialled:
    """The address that Pods dial for each ExternalService, by uid."""

    def __init__(self) -> None:
        self._by_uid: dict[str, str] = {}
        self._holder: dict[str, str] = {}  # address -> uid

    def get(self, uid: str) -> str:
        """The address of one; empty while it has none."""
        return self._by_uid.get(uid, "")

    def put(self, uid: str, address: str) -> None:
        """An ExternalService has this address; empty when it is gone."""
        before = self._by_uid.pop(uid, "")
        if self._holder.get(before) == uid:
            del self._holder[before]
        if address:
            self._by_uid[uid], self._holder[address] = address, uid

    def changed(self, old: Item[ExternalService] | None, new: Item[ExternalService] | None) -> None:
        """Follow the cache."""
        if new is None and old is not None:
            self.put(old.metadata.uid, "")
        elif new is not None and new.object.status is not None and new.object.status.addresses:
            self.put(new.metadata.uid, new.object.status.addresses[0])

    def of_others(self, uid: str) -> Container[str]:
        """Addresses that others have."""
        return _Others(self._holder, uid)


class Carriers:
    """Which node carries each address, by the word of the nodes."""

    def __init__(self) -> None:
        self._owner: dict[str, str] = {}
        self._load: Counter[str] = Counter()

    def changed(self, old: Item[Gateway] | None, new: Item[Gateway] | None) -> None:
        """Follow the cache."""
        item = new or old
        owner = owner_of(new.object) if new is not None else None
        if item is not None:
            self._load.subtract(filter(None, [self._owner.pop(item.metadata.name, None)]))
            if owner is not None:
                self._owner[item.metadata.name] = owner.name
                self._load[owner.name] += 1

    def load(self, but: str) -> Mapping[str, int]:
        """How many addresses besides one each node carries."""
        owner = self._owner.get(but)
        return self._load if owner is None else self._load - Counter([owner])


class Nodes:
    """Every node, and the addresses that nodes themselves have."""

    def __init__(self) -> None:
        self.views: dict[str, NodeView] = {}
        self.listeners: list[Callable[[], None]] = []  # told of changes that matter: most are heartbeats
        self._addresses: dict[str, set[Address]] = {}
        self._digits: dict[str, str] = {}  # as in the names of Forwarders -> name
        self._held: Counter[Address] = Counter()  # two nodes may say that they have the same one

    def changed(self, old: Item[JsonObject] | None, new: Item[JsonObject] | None) -> None:
        """Follow the cache."""
        item = new or old
        if item is None:
            return
        before = self.views.pop(item.key, None), self._addresses.pop(item.key, None)
        self._digits.pop(node_digits(item.key), None)
        if new is not None:
            self._digits[node_digits(new.key)] = new.key
            self.views[new.key] = node_view(new.object)
            self._addresses[new.key] = node_addresses(new.object, self.views[new.key])
        if before != (self.views.get(item.key), self._addresses.get(item.key)):
            self._held.subtract(before[1] or ())
            self._held.update(self._addresses.get(item.key, ()))
            for tell in self.listeners:
                tell()

    def by_digits(self, digits: str) -> NodeView | None:
        """The node of a Forwarder, by the end of that one's name."""
        return self.views.get(self._digits.get(digits, ""))

    def have(self, address: Address) -> bool:
        """Whether one of them has an address."""
        return self._held[address] > 0

    @property
    def addresses(self) -> set[Address]:
        """All of them."""
        return set().union(*self._addresses.values())
