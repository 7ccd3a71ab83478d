"""Parses a provider's response: one SizingProviderResponse on stdout, strictly.

Errors quote only the offending names and quantities, since the output of a program may contain anything.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from tarmac.agent.sizing.providerconfig import quoted
from tarmac.api.status import TooLarge
from tarmac.decide.allocatable.reservations import Reserved, reserved_amounts

KIND: Final = "SizingProviderResponse"
SYSTEM: Final = "systemReserve"
KUBE: Final = "kubeReserve"
_MAX_AMOUNT: Final = (1 << 63) - 1  # what the kernel and JSON can hold
_FIELDS: Final = ("apiVersion", "kind", SYSTEM, KUBE)
_MEANT: Final = {"systemReserved": SYSTEM, "kubeReserved": KUBE}


class BadResponse(ValueError):
    """The response is invalid. The message says why."""


@dataclass(frozen=True, slots=True)
class SizingResponse:
    """Amounts to reserve for the system and for the agent."""

    system: Mapping[str, Reserved]
    kube: Mapping[str, Reserved]


def request(api_version: str) -> bytes:
    """Return the request on stdin. It does not describe the host: a provider inspects it by itself."""
    return (
        json.dumps({"kind": "SizingProviderRequest", "apiVersion": api_version}, separators=(",", ":")).encode() + b"\n"
    )


def decode(body: bytes, api_version: str, source: str) -> SizingResponse:
    """Parse a response to a request of this version. Raises BadResponse."""
    found = _object(body)
    for field, expected in (("apiVersion", api_version), ("kind", KIND)):
        if found.get(field) != expected:
            raise BadResponse(f"the response's {field} is {quoted(found.get(field))}, not {quoted(expected)}")
    for name in found:
        if name not in _FIELDS:
            meant = f"; write {_MEANT[name]}" if name in _MEANT else f"; there are {', '.join(_FIELDS)}"
            raise BadResponse(f"the response has an unknown field {quoted(name)}{meant}")
    return SizingResponse(_amounts(SYSTEM, found.get(SYSTEM), source), _amounts(KUBE, found.get(KUBE), source))


def _object(body: bytes) -> dict[str, Any]:
    # imported here: an agent without providers saves a megabyte of parsers
    from tarmac.api.decode.jsontext import Malformed, parse_json

    if not body.strip():
        raise BadResponse("stdout is empty")
    try:
        body.decode()
        found = parse_json(body)
    except UnicodeDecodeError:
        raise BadResponse("stdout is not UTF-8") from None
    except Malformed as error:
        more = "after top-level value" in str(error)
        raise BadResponse(f"stdout {'has more after the' if more else 'is not one'} JSON object") from None
    except TooLarge:
        raise BadResponse("stdout is not one JSON object with a handful of values") from None
    if not isinstance(found.value, dict):
        raise BadResponse("stdout is not one JSON object")
    if found.pairs is not None:
        raise BadResponse(f"the response has {_repeated(found.pairs)} twice")
    return found.value


def _repeated(written: Any) -> str:
    """Return the path of a duplicate key."""
    from tarmac.api.decode.jsontext import Pairs

    names: set[str] = set()
    for name, value in written.all if isinstance(written, Pairs) else ():
        if name in names:
            return quoted(name)
        names.add(name)
        if inside := _repeated(value):
            return f"{inside} in {quoted(name)}"
    inside = (_repeated(each) for each in written) if isinstance(written, list) else ()
    return next(filter(None, inside), "")


def _amounts(field: str, found: Any, source: str) -> Mapping[str, Reserved]:
    if found is None:
        return {}
    if not isinstance(found, dict):
        raise BadResponse(f"{field}: expected an object of resources and quantities")
    for resource, quantity in found.items():
        if not isinstance(quantity, str):
            raise BadResponse(
                f'{field}: the quantity of {quoted(resource)} is not a text; write it in quotes, such as "1"'
            )
    try:
        amounts = reserved_amounts(found, source)
    except ValueError as error:
        raise BadResponse(f"{field}: {error}") from error
    for resource, amount in amounts.items():
        if amount.amount > _MAX_AMOUNT:
            raise BadResponse(f"{field}: the quantity of {quoted(resource)} is more than any machine has")
    return amounts
