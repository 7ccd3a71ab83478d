"""Address allocation: the only place in a process that assigns addresses.

An address is held by every Instance and Pod whose annotation names it, and by a promise from its assignment until the
object that carries it is observed. Promises are stored under the object's key. Repeating a request for the same object
and networks returns the same addresses, so an attempt with an unknown outcome leaks nothing. A request for different
networks keeps both promises, since the object may appear with either. A Pod that terminates slowly keeps the addresses
of its deleted Instance.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from sys import intern
from typing import Any, NamedTuple

import msgspec

from tarmac.api.compute.instance import InterfaceAddress
from tarmac.api.networking.interfaces import AttachedInterface, decode_interfaces
from tarmac.api.networking.names import ANNOTATION_INTERFACES
from tarmac.api.networking.policy import InterfacePolicy
from tarmac.api.shared import IPFamily
from tarmac.base.log import log
from tarmac.client.cache import Item
from tarmac.client.informer import Informer, Informers
from tarmac.client.targets.typed import INSTANCES
from tarmac.client.targets.untyped import PODS
from tarmac.controllers.networkaddresses import NetworkAddresses
from tarmac.decide.addresses import SubnetPool, assign, mac_address
from tarmac.decide.verdict import Refusal, Verdict

_log = log("addresses")

Held = tuple[str, str]
"""A network, as namespace/name, and an address in it without its prefix length."""


@dataclass(frozen=True, slots=True)
class Attachment:
    """An interface that can be created: its network, and one subnet per family in the order of its families."""

    name: str
    network: str  # namespace/name
    vni: int
    mtu: int
    ranges: Mapping[IPFamily, str]
    policy: InterfacePolicy | None = None
    routes: tuple[str, ...] = ()


class _Promise(NamedTuple):
    attachments: tuple[Attachment, ...]
    interfaces: list[AttachedInterface]


def pod_holder(key: str) -> str:
    """Return the holder name of a Pod without an Instance."""
    return f"pod {key}"


class AddressBook:
    """Addresses in use, over all networks. Complete once its informers have synced."""

    def __init__(self, informers: Informers) -> None:
        self.informers: tuple[Informer[Any], ...] = (informers.informer(INSTANCES), informers.informer(PODS))
        self._networks: dict[str, NetworkAddresses] = {}
        self._promised: dict[str, list[_Promise]] = {}
        instances, pods = self.informers
        instances.on_change(partial(self._changed, {}, str))
        pods.on_change(partial(self._changed, {}, pod_holder))

    def assign(self, key: str, attachments: Iterable[Attachment]) -> Verdict[list[AttachedInterface]]:
        """Assign the interfaces of the object of this key. All of them, or none.

        They stay promised until the object is observed or forgotten.
        """
        wanted = tuple(attachments)
        # The same request gets the same addresses, so that a write with an unknown outcome can be repeated.
        for promise in self._promised.get(key, ()):
            if promise.attachments == wanted:
                return Verdict(promise.interfaces)
        made: list[AttachedInterface] = []
        for attachment in wanted:
            verdict = self._assign(attachment)
            if verdict.value is None:
                # All or none: addresses of the first interfaces must not stay taken for an object that gets none.
                self._release_all(made)
                return Verdict(None, verdict.refusals)
            made.append(verdict.value)
        # Beside earlier promises for other networks: the object may still appear with those addresses.
        self._promised.setdefault(key, []).append(_Promise(wanted, made))
        return Verdict(made)

    def uses(self, network: str) -> bool:
        """Return True if any object or promise holds an address of the network (namespace/name)."""
        return network in self._networks and self._networks[network].held

    def forget(self, key: str) -> None:
        """Drop the promises of an object that was not created and will not be."""
        for promise in self._promised.pop(key, ()):
            self._release_all(promise.interfaces)

    def _assign(self, attachment: Attachment) -> Verdict[AttachedInterface]:
        network = self._network(attachment.network)
        pools: dict[IPFamily, tuple[SubnetPool]] = {
            family: (network.pool(subnet),) for family, subnet in attachment.ranges.items()
        }
        verdict = assign(pools, tuple(attachment.ranges))
        if verdict.value is None:
            return Verdict(None, tuple(_about(refusal, attachment) for refusal in verdict.refusals))
        for family in attachment.ranges:
            network.put(*verdict.value.pools[family])
        interface = _interface(attachment, verdict.value.addresses)
        for _, address in _held((interface,)):
            network.hold(address)
        return Verdict(interface)

    def _network(self, name: str) -> NetworkAddresses:
        return self._networks.setdefault(name, NetworkAddresses())

    def _changed(
        self, counted: dict[str, str], holder: Callable[[str], str], old: Item[Any] | None, new: Item[Any] | None
    ) -> None:
        """Count the addresses that an object carries.

        `counted` has the annotation counted last, by key: on deletion, `old` may differ from it.
        """
        item = new or old
        assert item is not None, "a change has a state before or after it"
        key = item.key
        before, after = counted.pop(key, ""), _annotation(new)
        if after:
            counted[key] = intern(after)  # an Instance and its Pod carry the same text
        # Hold before release, and release the promise last: an address that stays in use must never count as free.
        if before != after:
            for network, address in _held(_read(after)):
                self._network(network).hold(address)
            self._release_all(_read(before))
        if after or new is None:
            self.forget(holder(key))

    def _release_all(self, interfaces: Iterable[AttachedInterface]) -> None:
        for name, address in _held(interfaces):
            network = self._network(name)
            network.release(address)
            if not network.held:  # the network may be deleted: drop its state
                del self._networks[name]


def _interface(attachment: Attachment, addresses: Iterable[InterfaceAddress]) -> AttachedInterface:
    addresses = list(addresses)
    return AttachedInterface(
        name=attachment.name,
        network=attachment.network,
        vni=attachment.vni,
        mtu=attachment.mtu,
        mac=mac_address(attachment.network, addresses[0].address) if addresses else "",
        addresses=[each.address for each in addresses],
        gateways=[each.gateway for each in addresses],
        routes=list(attachment.routes),
        policy=attachment.policy,
    )


def _held(interfaces: Iterable[AttachedInterface]) -> Iterator[Held]:
    for interface in interfaces:
        for address in interface.addresses:
            yield interface.network, address.partition("/")[0]


def _annotation(item: Item[Any] | None) -> str:
    return "" if item is None else (item.metadata.annotations or {}).get(ANNOTATION_INTERFACES, "")


def _read(text: str) -> list[AttachedInterface]:
    if not text:
        return []
    try:
        return decode_interfaces(text)
    # Users can write the annotation: an unreadable one must not stop the allocation for all.
    except msgspec.MsgspecError as error:
        _log.warning("interfaces annotation cannot be decoded, ignored", error=str(error))
        return []


def _about(refusal: Refusal, attachment: Attachment) -> Refusal:
    return Refusal(refusal.reason, refusal.message, attachment.network, refusal.rule, refusal.change)
