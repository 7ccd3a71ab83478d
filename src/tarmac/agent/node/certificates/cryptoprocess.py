"""Creates keys, requests and certificates in a separate process that exits with the answer.

The library behind this would take a seventh of the agent's memory for good, for a few uses a year. So the work is done
by a program (`cryptoworker`) that reads one order as JSON from standard input and writes the answer to standard output.
Keys never appear on a command line or in a file there.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass

import msgspec

from tarmac.agent.node.programs import run_program

_PROGRAM = "tarmac.agent.node.certificates.cryptoworker"


@dataclass(frozen=True, slots=True)
class CryptoRequest:
    """A task for the program.

    `request`: a signing request for the key in `pem`, or for a new one. `self-signed`: a key and a certificate.
    `inspect`: the content of the certificate in `pem`.
    """

    kind: str
    common_name: str = ""
    organisation: str = ""
    names: tuple[str, ...] = ()
    addresses: tuple[str, ...] = ()
    starts: float = 0.0
    ends: float = 0.0
    pem: str = ""


@dataclass(frozen=True, slots=True)
class CryptoResult:
    """The answer: PEM text if requested, times in Unix seconds, and a failure in `error`."""

    key: str = ""
    request: str = ""
    certificate: str = ""
    common_name: str = ""
    issuer: str = ""  # common name of the signing authority
    starts: float = 0.0
    ends: float = 0.0
    names: tuple[str, ...] = ()  # and addresses
    error: str = ""

    def __repr__(self) -> str:
        """Omit the key."""
        return f"Crafted({self.common_name!r}, {self.starts}-{self.ends})"


class CryptoError(Exception):
    """A certificate that cannot be read or created."""


async def run_crypto(order: CryptoRequest) -> CryptoResult:
    """Run one order in the program. Raises CryptoError."""
    done = await run_program(sys.executable, "-m", _PROGRAM, stdin=msgspec.json.encode(order))
    if done.code != 0:
        raise CryptoError(f"the certificate helper ended with {done.code}: {done.err.decode(errors='replace')[-500:]}")
    crafted = msgspec.json.decode(done.out, type=CryptoResult)
    if crafted.error:
        raise CryptoError(crafted.error)
    return crafted
