"""Service account tokens of pods: requested once, kept in memory, and renewed well before they expire.

A token is renewed after four fifths of its lifetime or a day, the earlier of both, with jitter so that a node's pods do
not renew all at once. While the server is unreachable, the old token is returned until it expires.
"""

from __future__ import annotations

from typing import NamedTuple

from tarmac.api.schema import JsonObject
from tarmac.api.status import ApiError
from tarmac.base.clock import parse_rfc3339
from tarmac.base.log import log
from tarmac.client.client import Client
from tarmac.client.errors import ClientError
from tarmac.client.targets.untyped import SERVICE_ACCOUNTS
from tarmac.volumes.interface import SourceUnavailable

MAX_USE = 24 * 3600.0
RENEW_FRACTION = 0.8
MAX_JITTER = 10.0

_log = log("tokens")


class _Key(NamedTuple):
    pod_uid: str
    account: str
    audience: str
    seconds: int


class _Token(NamedTuple):
    text: str
    ends: float  # by the server's clock
    renew_at: float  # on the local monotonic clock, as `over_at`: independent of both wall clocks
    over_at: float


class PodTokens:
    """Tokens by pod and audience."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._tokens: dict[_Key, _Token] = {}

    async def get(self, pod: JsonObject, audience: str, seconds: int) -> tuple[str, float]:
        """Return a valid token and its expiry. Raises SourceUnavailable."""
        account = pod["spec"].get("serviceAccountName") or "default"
        key = _Key(pod["metadata"]["uid"], account, audience, seconds)
        kept, now = self._tokens.get(key), self._client.clock.monotonic()
        if kept is None or now >= kept.renew_at:
            try:
                # Two calls may ask at once: the later answer replaces the earlier token, and both are valid.
                kept = self._tokens[key] = await self._request(pod, key)
            except (ApiError, ClientError) as error:
                # A server that is unreachable must not stop running pods while their token is still accepted.
                if kept is None or now >= kept.over_at:
                    raise SourceUnavailable(f"failed to fetch token: {error}") from error
                _log.warning("token renewal failed, will retry", pod=pod["metadata"]["name"], error=str(error))
        return kept.text, kept.ends

    def forget(self, pod_uid: str) -> None:
        """Drop the tokens of a removed pod."""
        for key in [key for key in self._tokens if key.pod_uid == pod_uid]:
            del self._tokens[key]

    async def _request(self, pod: JsonObject, key: _Key) -> _Token:
        metadata = pod["metadata"]
        bound = {"apiVersion": "v1", "kind": "Pod", "name": metadata["name"], "uid": metadata["uid"]}
        spec: JsonObject = {"expirationSeconds": key.seconds, "boundObjectRef": bound}
        if key.audience:
            spec["audiences"] = [key.audience]
        request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": spec}
        # The lifetime counts from before the request: the token is never used longer than the server accepts it.
        accounts, asked = self._client.resource(SERVICE_ACCOUNTS), self._client.clock.monotonic()
        answer = await accounts.create(request, namespace=metadata["namespace"], name=key.account, subresource="token")
        ends = parse_rfc3339(answer["status"]["expirationTimestamp"])
        # The server may grant a lifetime other than the requested one.
        life = float((answer.get("spec") or {}).get("expirationSeconds") or key.seconds)
        jitter = self._client.randomness.uniform(0, min(MAX_JITTER, life / 20))
        renew_at = asked + min(life * RENEW_FRACTION, MAX_USE) - jitter
        return _Token(answer["status"]["token"], ends, renew_at, asked + life)
