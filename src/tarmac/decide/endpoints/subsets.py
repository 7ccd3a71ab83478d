"""Repacks addresses into subsets of v1 Endpoints: every port once, with all the addresses that serve it.

The input are offers: addresses with the same ports, from the pods behind a Service or from hand-written subsets. Ports
with the same addresses in the same readiness share a subset; an address that is ready in one offer and not in a second
one counts as not ready. The output is sorted: addresses by text and uid, ports by name. Kubernetes sorts ports and
subsets by an internal hash, on which clients do not rely.

Ports times addresses can be far more than the input, so the amount of work is limited, and it runs cooperatively.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from math import ceil
from typing import NamedTuple

from tarmac.base.cooperative import CooperativeWork
from tarmac.decide.endpoints.ports import ResolvedPort

CAPACITY = 1000  # addresses in one Endpoints object

Address = tuple[str, str]
"""An address, and the uid of its object, which may be empty."""

Readiness = Mapping[Address, bool]
"""Addresses mapped to True if ready."""


class SubsetAddresses(NamedTuple):
    """Addresses with the same ports."""

    ports: Sequence[ResolvedPort]
    addresses: Readiness


class Subset(NamedTuple):
    """Ports and the addresses that serve all of them; without ports, addresses only."""

    ports: tuple[ResolvedPort, ...]
    ready: tuple[Address, ...]
    not_ready: tuple[Address, ...]


def repacked(offers: Sequence[SubsetAddresses], most: int) -> CooperativeWork[list[Subset]]:
    """Return the subsets of the offers, without the ports beyond `most` addresses in total."""
    found: dict[frozenset[tuple[Address, bool]], list[ResolvedPort]] = {}
    looked_at = 0
    for numbers, ports in (yield from _by_offers(offers)).items():
        addresses = _joined([offers[number].addresses for number in numbers])
        looked_at += len(addresses)
        if looked_at > most and found:
            break
        found.setdefault(frozenset(addresses.items()), []).extend(ports)
        yield
    subsets: list[Subset] = []
    for members, ports in found.items():
        ready = tuple(sorted(address for address, is_ready in members if is_ready))
        not_ready = tuple(sorted(address for address, is_ready in members if not is_ready))
        subsets.append(Subset(tuple(sorted(ports, key=_port_order)), ready, not_ready))
        yield
    # Each port is in one subset only, so the first port is a sufficient key; there may be a thousand more.
    return sorted(subsets, key=lambda each: _port_order(each.ports[0]) if each.ports else ("",))


def truncated(subsets: Sequence[Subset]) -> list[Subset]:
    """Truncate to the capacity of one object: ready addresses first, each subset by its share, rounded up."""
    ready = sum(len(each.ready) for each in subsets)
    if ready > CAPACITY:
        shares = _shares([len(each.ready) for each in subsets], CAPACITY)
        kept = [Subset(each.ports, each.ready[:share], ()) for each, share in zip(subsets, shares, strict=True)]
    else:
        shares = _shares([len(each.not_ready) for each in subsets], CAPACITY - ready)
        kept = [each._replace(not_ready=each.not_ready[:share]) for each, share in zip(subsets, shares, strict=True)]
    return [each for each in kept if each.ready or each.not_ready]


def with_ports(subsets: Sequence[Subset], most: int) -> list[Subset]:
    """Return the first subsets with at most `most` ports in total, and at least one subset."""
    kept: list[Subset] = []
    for each in subsets:
        most -= len(each.ports)
        if most < 0 and kept:
            break
        kept.append(each)
    return kept


def _shares(sizes: Sequence[int], room: int) -> Iterator[int]:
    total, left = sum(sizes), room
    for size in sizes:
        share = min(size, left, ceil(size / total * room)) if total else 0
        left -= share
        yield share


def _by_offers(offers: Sequence[SubsetAddresses]) -> CooperativeWork[dict[tuple[int, ...], list[ResolvedPort]]]:
    """Return ports by the indexes of their offers. An offer without ports gets an entry without ports."""
    places: dict[ResolvedPort | None, list[int]] = {}
    for number, offer in enumerate(offers):
        for port in dict.fromkeys(offer.ports) or (None,):
            places.setdefault(port, []).append(number)
            yield
    found: dict[tuple[int, ...], list[ResolvedPort]] = {}
    for port, numbers in places.items():
        found.setdefault(tuple(numbers), []).extend([] if port is None else [port])
        yield
    return found


def _joined(parts: Sequence[Readiness]) -> Readiness:
    if len(parts) == 1:
        return parts[0]
    joined: dict[Address, bool] = {}
    for part in parts:
        for address, ready in part.items():
            joined[address] = ready and joined.get(address, True)
    return joined


def _port_order(port: ResolvedPort) -> tuple[str, int, str, str]:
    return port.name, port.number, port.protocol, port.app_protocol or ""
