"""Indexes over all objects, maintained incrementally, so that one decision does not decode all of them.

They hold the taken transit numbers, identities and dialled addresses, the node that carries each address, and the view
of every node.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Mapping
from typing import Any

from tarmac.api.egress.externalservice import ExternalService
from tarmac.api.egress.forwarding import Forwarder, Gateway
from tarmac.api.egress.sourceip import SourceIP
from tarmac.client.cache import Item
from tarmac.decide.egress.numbers import transit_number
from tarmac.decide.egress.status import owner_of


def service_key(forwarder: Forwarder) -> str:
    """Return the ExternalService (namespace/name) of a Forwarder."""
    owner = forwarder.spec.external_service
    return f"{owner.namespace}/{owner.name}" if owner is not None else ""


class TransitNumbers:
    """Transit numbers by ExternalService. A recent write counts before the cache shows it."""

    def __init__(self) -> None:
        self._holder: dict[int, str] = {}  # number -> ExternalService
        self._numbers: dict[str, set[int]] = {}  # Forwarder -> its numbers

    def put(self, key: str, forwarder: Forwarder | None) -> None:
        """Record the current state of a Forwarder; None when it is deleted."""
        # Old numbers first: a Forwarder that keeps one must hold it in the end.
        for number in self._numbers.pop(key, ()):
            self._holder.pop(number, None)
        if forwarder is not None:
            rules = (*forwarder.spec.egress_rules, *forwarder.spec.ingress_rules)
            numbers = {transit_number(rule.transit_ip) for rule in rules if rule.transit_ip}
            self._numbers[key] = numbers
            self._holder.update(dict.fromkeys(numbers, service_key(forwarder)))

    def changed(self, old: Item[Forwarder] | None, new: Item[Forwarder] | None) -> None:
        """Handle a change of the cache."""
        item = new or old
        if item is not None:
            self.put(item.key, new.object if new is not None else None)

    def of_others(self, service: str) -> Container[int]:
        """Return the numbers held by ExternalServices except this one."""
        return _Others(self._holder, service)


class _Others:
    """A view of the numbers or addresses held by all services except one."""

    def __init__(self, holder: Mapping[Any, str], own: str) -> None:
        self._holder, self._own = holder, own

    def __contains__(self, what: object) -> bool:
        return self._holder.get(what, self._own) != self._own


class AddressIdentities:
    """Taken identities of addresses."""

    def __init__(self) -> None:
        self.taken: set[int] = set()
        self._by_name: dict[str, int] = {}

    def put(self, name: str, number: int) -> None:
        """Record the identity of an address; 0 when it has none or is deleted."""
        self.taken.discard(self._by_name.pop(name, 0))
        if number:
            self._by_name[name] = number
            self.taken.add(number)

    def changed(self, old: Item[SourceIP] | None, new: Item[SourceIP] | None) -> None:
        """Handle a change of the cache.

        A version older than our own write has no identity yet: keep the recorded one.
        """
        if new is not None and new.object.status is not None and new.object.status.id:
            self.put(new.key, new.object.status.id)
        elif new is None and old is not None:
            self.put(old.key, 0)


class DialledAddresses:
    """The address that Pods dial for each ExternalService, by uid."""

    def __init__(self) -> None:
        self._by_uid: dict[str, str] = {}
        self._holder: dict[str, str] = {}  # address -> uid

    def get(self, uid: str) -> str:
        """Return the dialled address; empty while there is none."""
        return self._by_uid.get(uid, "")

    def put(self, uid: str, address: str) -> None:
        """Record the address of an ExternalService; empty when it is deleted."""
        before = self._by_uid.pop(uid, "")
        # Another service may hold the address by now: its entry stays.
        if self._holder.get(before) == uid:
            del self._holder[before]
        if address:
            self._by_uid[uid], self._holder[address] = address, uid

    def changed(self, old: Item[ExternalService] | None, new: Item[ExternalService] | None) -> None:
        """Handle a change of the cache."""
        if new is None and old is not None:
            self.put(old.metadata.uid, "")
        elif new is not None and new.object.status is not None and new.object.status.addresses:
            self.put(new.metadata.uid, new.object.status.addresses[0])

    def of_others(self, uid: str) -> Container[str]:
        """Return the addresses held by ExternalServices except this one."""
        return _Others(self._holder, uid)


class AddressOwners:
    """The node that carries each address, as reported by the nodes."""

    def __init__(self) -> None:
        self._owner: dict[str, str] = {}
        self._load: Counter[str] = Counter()

    def changed(self, old: Item[Gateway] | None, new: Item[Gateway] | None) -> None:
        """Handle a change of the cache."""
        item = new or old
        owner = owner_of(new.object) if new is not None else None
        if item is not None:
            self._load.subtract(filter(None, [self._owner.pop(item.metadata.name, None)]))
            if owner is not None:
                self._owner[item.metadata.name] = owner.name
                self._load[owner.name] += 1

    def load(self, but: str) -> Mapping[str, int]:
        """Return the number of addresses that each node carries, not counting `but`."""
        owner = self._owner.get(but)
        return self._load if owner is None else self._load - Counter([owner])
