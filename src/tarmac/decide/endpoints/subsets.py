"""Addresses in subsets, as v1 Endpoints lists them: every port once, beside all the addresses that answer there.

What comes in are offers: addresses that answer at the same ports, as the pods behind a Service or the subsets that
somebody wrote. Ports that are offered by the same addresses, each as ready as at the other, share a subset; an address
that is ready in one offer and not in another is not. All is in order: addresses by number and by what they belong to,
ports by name. Kubernetes sorts ports and subsets by a hash of its own, which nobody relies on.

Ports times addresses can be far more than what was written, so there is a bound on what is looked at, and it is done in
pieces.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from math import ceil
from typing import NamedTuple

from tarmac.base.pieces import Work
from tarmac.decide.endpoints.ports import Port

CAPACITY = 1000  # addresses in one Endpoints object

Address = tuple[str, str]
"""The address, and the uid of what it belongs to, which may be empty."""

Readiness = Mapping[Address, bool]
"""Addresses, and whether each is ready."""


class Offer(NamedTuple):
    """Addresses that answer at the same ports."""

    ports: Sequence[Port]
    addresses: Readiness


class Subset(NamedTuple):
    """Ports, and who answers at all of them. Without ports, who is there at all."""

    ports: tuple[Port, ...]
    ready: tuple[Address, ...]
    not_ready: tuple[Address, ...]


def repacked(offers: Sequence[Offer], most: int) -> Work[list[Subset]]:
    """The subsets of what is offered, but for ports beyond `most` addresses in all."""
    found: dict[frozenset[tuple[Address, bool]], list[Port]] = {}
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
    # Each port is in one subset only, so the first tells them apart; there may be a thousand behind it.
    return sorted(subsets, key=lambda each: _port_order(each.ports[0]) if each.ports else ("",))


def truncated(subsets: Sequence[Subset]) -> list[Subset]:
    """As many as one object may list: those that are ready first, each subset by its share, rounded up."""
    ready = sum(len(each.ready) for each in subsets)
    if ready > CAPACITY:
        shares = _shares([len(each.ready) for each in subsets], CAPACITY)
        kept = [Subset(each.ports, each.ready[:share], ()) for each, share in zip(subsets, shares, strict=True)]
    else:
        shares = _shares([len(each.not_ready) for each in subsets], CAPACITY - ready)
        kept = [each._replace(not_ready=each.not_ready[:share]) for each, share in zip(subsets, shares, strict=True)]
    return [each for each in kept if each.ready or each.not_ready]


def with_ports(subsets: Sequence[Subset], most: int) -> list[Subset]:
    """The first of them, as many as have so many ports together, and at least one."""
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


def _by_offers(offers: Sequence[Offer]) -> Work[dict[tuple[int, ...], list[Port]]]:
    """Ports by the numbers of the offers they are in. An offer without ports is one of nothing."""
    places: dict[Port | None, list[int]] = {}
    for number, offer in enumerate(offers):
        for port in dict.fromkeys(offer.ports) or (None,):
            places.setdefault(port, []).append(number)
            yield
    found: dict[tuple[int, ...], list[Port]] = {}
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


def _port_order(port: Port) -> tuple[str, int, str, str]:
    return port.name, port.number, port.protocol, port.app_protocol or ""
