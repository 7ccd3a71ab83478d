"""What is asked: to what, at which port. Words become a question here, and bad ones an error that says why."""

from __future__ import annotations

from dataclasses import dataclass
from ipaddress import ip_address
from typing import Final, Literal

Kind = Literal["instance", "pod", "service", "externalservice", "address"]
KINDS: Final[tuple[Kind, ...]] = ("instance", "pod", "service", "externalservice")
PROTOCOLS: Final = ("TCP", "UDP", "SCTP")
_TARGET: Final = "NAME, NAMESPACE/NAME, pod/…, service/…, externalservice/… or an address"


class BadQuestion(Exception):
    """What was asked makes no question. The message says what would."""


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
    """`port` is a number, or what the target calls it."""

    target: ReachTarget
    port: str
    protocol: str = "TCP"
    both: bool = False


def question_of(target: str, port: str, protocol: str, namespace: str, *, both: bool = False) -> ReachQuestion:
    """The question; names are of a namespace. Raises BadQuestion."""
    protocol = (protocol or "TCP").upper()
    if protocol not in PROTOCOLS:
        raise BadQuestion(f"protocol: {protocol!r} is none of {', '.join(PROTOCOLS)}")
    if not port:
        raise BadQuestion("port: which one? A number, or what the target calls it")
    if port.isascii() and port.isdigit() and not (len(port) < 6 and 0 < int(port) < 65536):
        raise BadQuestion(f"port: {port} is none from 1 to 65535")
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
