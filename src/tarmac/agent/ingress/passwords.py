"""Passwords of BGP sessions, from the Secrets that BGPPeers name."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping, Set

from tarmac.api.checks import mapping
from tarmac.api.ingress.names import PASSWORD_KEY, SECRET_NAMESPACE
from tarmac.api.status import ApiError, Forbidden, NotFound
from tarmac.base.log import log
from tarmac.client.client import Client
from tarmac.client.errors import TransportError
from tarmac.client.targets.untyped import SECRETS

_INTERVAL, _RETRY = 60.0, 5.0

_log = log("ingress")


class SessionPasswords:
    """Reads Secrets every minute, and missing ones every few seconds. While the server is away, it keeps passwords."""

    def __init__(self, client: Client) -> None:
        self._secrets, self._clock = client.resource(SECRETS), client.clock
        self._known: dict[str, str] = {}
        self._due: dict[str, float] = {}

    @property
    def due(self) -> bool:
        """True if it is time to read one again."""
        return any(each <= self._clock.monotonic() for each in self._due.values())

    async def read(self, names: Set[str], before: Mapping[str, str]) -> dict[str, str]:
        """Return the passwords by Secret; `before` are those of a checkpoint. One without a password is left out."""
        self._known = {name: each for name, each in ({**before} | self._known).items() if name in names}
        self._due = {name: each for name, each in self._due.items() if name in names}
        now = self._clock.monotonic()
        for name in sorted(name for name in names if self._due.get(name, now) <= now):
            await self._read(name)
            self._due[name] = now + (_INTERVAL if name in self._known else _RETRY)
        return dict(self._known)

    async def _read(self, name: str) -> None:
        try:
            data = mapping(await self._secrets.get(name, SECRET_NAMESPACE), "data")
            self._known[name] = base64.b64decode(data[PASSWORD_KEY], validate=True).decode().rstrip("\n")
        except (NotFound, Forbidden, KeyError, binascii.Error, UnicodeDecodeError) as error:
            # Gone on purpose: a session without its password would be open to every host.
            self._known.pop(name, None)
            _log.warning(
                "password of BGP sessions cannot be read", secret=f"{SECRET_NAMESPACE}/{name}", why=repr(error)
            )
        except (ApiError, TransportError) as error:
            _log.warning("password of BGP sessions not read, retrying", secret=name, why=str(error))
