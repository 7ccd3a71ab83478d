"""Renews a certificate between 70 and 90 percent of its life, with retries after failures.

A certificate of an authority that no longer signs is renewed at a random moment within five minutes, so that not all
nodes come at once.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Set
from math import inf

from tarmac.agent.node.certificates.certificatefiles import PairFile, split_pair
from tarmac.agent.node.certificates.certificaterequests import CertificateRefused
from tarmac.agent.node.certificates.cryptoprocess import CryptoError, CryptoRequest, run_crypto
from tarmac.api.status import ApiError
from tarmac.base.clock import Clock
from tarmac.base.log import log
from tarmac.base.randomness import Randomness
from tarmac.client.backoff import Backoff
from tarmac.client.errors import ClientError

_FIRST_RETRY, _LONGEST_RETRY = 5.0, 600.0
_CHECK_INTERVAL = 60.0  # clocks are set, machines sleep, authorities are rotated: check regularly
SPREAD = 300.0
_log = log("certificates")

Obtain = Callable[[], Awaitable[tuple[str, str]]]
"""Returns a new certificate and its key."""


class CertificateRotation:
    """Renews the pair in `file`. `changed` is called with every new one: certificate and key."""

    def __init__(
        self,
        file: PairFile,
        obtain: Obtain,
        changed: Callable[[str, str], None],
        clock: Clock,
        randomness: Randomness,
        outdated: Callable[[str], bool] = lambda _: False,
    ) -> None:
        """Given an authority's name, `outdated` returns True if another authority signs now."""
        self._file = file
        self._obtain = obtain
        self._changed = changed
        self._clock = clock
        self._randomness = randomness
        self._outdated = outdated
        self._soon: float | None = None  # when to renew a certificate of an authority that no longer signs
        self._portion = randomness.uniform(0.7, 0.9)
        self._backoff = Backoff(randomness, _FIRST_RETRY, _LONGEST_RETRY)
        self.ends: float | None = None  # of the certificate in use, once it was inspected
        self.issuer = ""

    async def run(self, current: str) -> None:
        """Renew until cancelled, starting from the certificate `current`; without one, at once."""
        while True:
            due = await self._due(current)
            while (left := min(due, self._soon_if_outdated()) - self._clock.now()) > 0:
                # In short steps: the sleep is measured by a clock that stands still while the host is suspended.
                await self._clock.sleep(min(left, _CHECK_INTERVAL))
            current, self._soon = await self._renew(current), None
            if await self._due(current) > self._clock.now():
                self._backoff.reset()
            else:  # it failed, or our clock is so far ahead of the server's that every new one appears old
                await self._clock.sleep(self._backoff.next())

    def _soon_if_outdated(self) -> float:
        if not self.issuer or not self._outdated(self.issuer):
            return inf
        if self._soon is None:
            # Spread: every node learns of a new authority at the same moment.
            self._soon = self._clock.now() + self._randomness.uniform(0.0, SPREAD)
        return self._soon

    async def _due(self, certificate: str) -> float:
        if not certificate:
            return 0.0
        try:
            seen = await run_crypto(CryptoRequest("inspect", pem=certificate))
        except CryptoError as error:
            _log.warning("current certificate cannot be read", why=str(error))
            return 0.0
        self.ends, self.issuer = seen.ends, seen.issuer
        return seen.starts + (seen.ends - seen.starts) * self._portion

    async def _renew(self, current: str) -> str:
        try:
            certificate, key = await self._obtain()
        except (CertificateRefused, CryptoError, ApiError, ClientError) as error:
            _log.warning("certificate renewal failed, will retry", why=str(error))
            # The old one stays in use: it is valid until its end, and the next attempt comes long before.
            return current
        # On disk before it is used: an agent killed in between starts with the new pair.
        self._file.write(certificate, key)
        self._changed(certificate, key)
        return certificate


async def usable_until(pem: str, common_name: str, names: Set[str] = frozenset()) -> float:
    """Return the expiry of a pair, if it has this user and these names; 0 if there is no readable pair."""
    certificate, key = split_pair(pem)
    if not certificate or not key:
        return 0.0
    try:
        seen = await run_crypto(CryptoRequest("inspect", pem=certificate))
    except CryptoError:
        return 0.0
    return seen.ends if seen.common_name == common_name and names <= {*seen.names} else 0.0
