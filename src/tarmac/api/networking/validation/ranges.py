"""Addresses and ranges of addresses."""

from __future__ import annotations

import ipaddress

from tarmac.base import names
from tarmac.base.fielderrors import FieldErrors

MIN_ADDRESSES_BITS = 4  # a /28 of IPv4; as many addresses of IPv6

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
Range = ipaddress.IPv4Network | ipaddress.IPv6Network


def check_address(written: str, path: str, errors: FieldErrors, *, family: int | None = None) -> Address | None:
    """A strictly written address, of the family if one is asked for; None when it was refused."""
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
    """A strictly written range without host bits; None when it was refused."""
    messages = names.cidr(written, strict=True)
    for message in messages:
        errors.invalid(path, written, message)
    return None if messages else ipaddress.ip_network(written)


def check_range(written: str, family: int, path: str, errors: FieldErrors) -> None:
    """The range of a network: of the family, and with room for sixteen addresses."""
    found = parse_range(written, path, errors)
    if found is None:
        return
    if found.version != family:
        errors.invalid(path, written, f"must be an IPv{family} range")
    elif found.max_prefixlen - found.prefixlen < MIN_ADDRESSES_BITS:
        errors.invalid(path, written, f"must be /{found.max_prefixlen - MIN_ADDRESSES_BITS} or larger")
