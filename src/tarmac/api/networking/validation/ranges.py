"""Addresses and ranges of addresses.

Some ranges cannot belong to a network: those with a fixed meaning everywhere, and those that the platform uses inside
every network. A pod with such an address could not be reached, or would take the platform's place.
"""

from __future__ import annotations

import ipaddress
from typing import Final

from tarmac.api.networking.names import DIALLED, NODE_MARKS, RESOLVERS, SERVICE_RANGES, TRANSITS, UPLINKS
from tarmac.base import names
from tarmac.base.fielderrors import FieldErrors

MIN_ADDRESSES_BITS = 4  # a /28 of IPv4; as many addresses of IPv6

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
Range = ipaddress.IPv4Network | ipaddress.IPv6Network

_USES: Final = {
    "0.0.0.0/8": "addresses that mean no host",
    "127.0.0.0/8": "the loopback of every host",
    "169.254.0.0/16": "link-local addresses, where the platform answers for names and metadata",
    "224.0.0.0/4": "multicast",
    NODE_MARKS[0]: "addresses that stand for nodes",
    SERVICE_RANGES[0]: "addresses of Services",
    "::/8": "the loopback, and addresses of IPv4 written as IPv6",
    "fe80::/10": "link-local addresses",
    "ff00::/8": "multicast",
    SERVICE_RANGES[1]: "addresses of Services",
    f"{RESOLVERS[1]}/128": "the platform's resolver",
    NODE_MARKS[1]: "addresses that stand for nodes",
    UPLINKS[1]: "the platform's ways into networks",
    DIALLED[1]: "addresses that stand for servers outside the platform",
    TRANSITS[1]: "addresses of connections to servers outside the platform",
}
_RESERVED: Final = [(ipaddress.ip_network(each), use) for each, use in _USES.items()]
_FITTING: Final = {4: "a part of 10.128.0.0/9, 172.16.0.0/12 or 192.168.0.0/16", 6: "a /48 of fd20::/20"}


def reserved_by(written: str) -> str:
    """Return the reason why a range or address cannot belong to a network, with alternatives; empty if it can."""
    requested = ipaddress.ip_network(written)
    for reserved, use in _RESERVED:
        if reserved.version == requested.version and reserved.overlaps(requested):  # type: ignore[arg-type] of one family
            return f"must not overlap {reserved}, {use}: use for example {_FITTING[requested.version]}"
    return ""


def check_address(written: str, path: str, errors: FieldErrors, *, family: int | None = None) -> Address | None:
    """Return a strictly written address, of the family if one is given; None if it was rejected."""
    messages = names.ip_address(written, strict=True)
    if not messages:
        address = ipaddress.ip_address(written)
        if family is None or address.version == family:
            return address
        messages = [f"must be an IPv{family} address"]
    for message in messages:
        errors.invalid(path, written, message)
    return None


def parse_range(written: str, path: str, errors: FieldErrors) -> Range | None:
    """Return a strictly written range without host bits; None if it was rejected."""
    messages = names.cidr(written, strict=True)
    for message in messages:
        errors.invalid(path, written, message)
    return None if messages else ipaddress.ip_network(written)


def check_range(written: str, family: int, path: str, errors: FieldErrors) -> None:
    """Check the range of a network: the family, at least sixteen addresses, and no overlap with reserved ranges."""
    found = parse_range(written, path, errors)
    if found is None:
        return
    if found.version != family:
        errors.invalid(path, written, f"must be an IPv{family} range")
    elif found.max_prefixlen - found.prefixlen < MIN_ADDRESSES_BITS:
        errors.invalid(path, written, f"must be /{found.max_prefixlen - MIN_ADDRESSES_BITS} or larger")
    elif reason := reserved_by(written):
        errors.invalid(path, written, reason)
