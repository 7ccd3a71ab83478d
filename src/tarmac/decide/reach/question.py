"""Parses reachability questions: target, port and protocol."""

from __future__ import annotations

from dataclasses import dataclass
from ipaddress import ip_address
from typing import Final, Literal

from tarmac.base.digits import port_number

Kind = Literal["instance", "pod", "service", "externalservice", "address"]
KINDS: Final[tuple[Kind, ...]] = ("instance", "pod", "service", "externalservice")
PROTOCOLS: Final = ("TCP", "UDP", "SCTP")
_TARGET: Final = "NAME, NAMESPACE/NAME, pod/…, service/…, externalservice/… or an address"


class BadQuestion(Exception):
    """The question is invalid. The message says how to correct it."""


@dataclass(frozen=True, slots=True)
class ReachTarget:
    """An object, or an address."""

    kind: Kind
    namespace: str
    name: str

    @property
    def key(self) -> str:
        """`namespace/name`."""
        return f"{self.namespace}/{self.name}"


@dataclass(frozen=True, slots=True)
class ReachQuestion:
    """A question about one target. `port` is a number or a port name of the target."""

    target: ReachTarget
    port: str
    protocol: str = "TCP"
    both: bool = False


def question_of(target: str, port: str, protocol: str, namespace: str, *, both: bool = False) -> ReachQuestion:
    """Parse a question; `namespace` is the default for names. Raises BadQuestion."""
    protocol = (protocol or "TCP").upper()
    if protocol not in PROTOCOLS:
        raise BadQuestion(f"protocol: {protocol!r} is none of {', '.join(PROTOCOLS)}")
    if not port:
        raise BadQuestion("port: missing; give a number, or the target's name for it")
    if port.isascii() and port.isdigit() and port_number(port) is None:
        raise BadQuestion(f"port: {port[:20]} is none from 1 to 65535")
    return ReachQuestion(_target(target, namespace), port, protocol, both)


def _target(text: str, namespace: str) -> ReachTarget:
    if address := _address(text):
        return ReachTarget("address", "", address)
    kind, slash, rest = text.partition("/")
    found: Kind | None = next((each for each in KINDS if slash and kind.lower() == each), None)
    if found is None:
        found, rest = KINDS[0], text
        if "." in text.rpartition("/")[2]:
            raise BadQuestion(f"reach: {text!r} looks like a host name, which is not looked up; give {_TARGET}")
    space, slash, name = rest.rpartition("/")
    if not name or "/" in space or (slash and not space):
        raise BadQuestion(f"reach: {text!r} is no target; give {_TARGET}")
    return ReachTarget(found, space or namespace, name)


def _address(text: str) -> str:
    try:
        return str(ip_address(text.removeprefix("[").removesuffix("]")))
    except ValueError:
        return ""
