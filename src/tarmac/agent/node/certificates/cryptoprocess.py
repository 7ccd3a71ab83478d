"""Keys, requests and certificates, in a process of their own that ends with the answer.

The library behind this would take a seventh of the agent's memory for good, for a few uses a year. So the work is done
by a program (`making`) that reads one order as JSON from standard input and writes the answer to standard output. Keys
never appear on a command line or in a file there.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass

import msgspec

from tarmac.agent.node.programs import run_program

_PROGRAM = "tarmac.agent.node.certificates.cryptoworker"


@dataclass(frozen=True, slots=True)
class Order:
    """`request`: a key and a signing request. `self-signed`: a key and a certificate. `inspect`: what `pem` says."""

    kind: str
    common_name: str = ""
    organisation: str = ""
    names: tuple[str, ...] = ()
    addresses: tuple[str, ...] = ()
    starts: float = 0.0
    ends: float = 0.0
    pem: str = ""


@dataclass(frozen=True, slots=True)
class Crafted:
    """The answer: PEM text where it was asked for, times in Unix seconds, and a refusal in `error`."""

    key: str = ""
    request: str = ""
    certificate: str = ""
    common_name: str = ""
    issuer: str = ""  # the common name of whoever signed it
    starts: float = 0.0
    ends: float = 0.0
    names: tuple[str, ...] = ()  # and addresses
    error: str = ""

    def __repr__(self) -> str:
        """Without the key."""
        return f"Crafted({self.common_name!r}, {self.starts}-{self.ends})"


class CraftError(Exception):
    """A certificate that cannot be read or made."""


async def craft(order: Order) -> Crafted:
    """Have it done. Raises CraftError."""
    done = await run_program(sys.executable, "-m", _PROGRAM, stdin=msgspec.json.encode(order))
    if done.code != 0:
        raise CraftError(f"the certificate helper ended with {done.code}: {done.err.decode(errors='replace')[-500:]}")
    crafted = msgspec.json.decode(done.out, type=Crafted)
    if crafted.error:
        raise CraftError(crafted.error)
    return crafted
