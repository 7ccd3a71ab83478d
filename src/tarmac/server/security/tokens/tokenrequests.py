"""Issues service-account tokens: the `token` subresource of ServiceAccounts."""

from __future__ import annotations

from typing import Any

from tarmac.api.schema import JsonObject
from tarmac.api.status import BadRequest, conflict, invalid, misplaced, not_found
from tarmac.base.clock import Clock, rfc3339
from tarmac.base.fielderrors import FieldErrors
from tarmac.base.randomness import Randomness
from tarmac.server.reader import decode
from tarmac.server.security.tokens.serviceaccounts import PREFIX, ServiceAccountTokens
from tarmac.store.interface import Store

_GROUP = "authentication.k8s.io"
_BUCKETS = {"Pod": "core/pods", "Secret": "core/secrets", "Node": "core/nodes"}
_DEFAULT_LIFETIME = 3600
_MIN_LIFETIME = 600
_MAX_LIFETIME = 1 << 32

Bound = dict[str, dict[str, str]]
"""The objects that a token is bound to: claim name ("pod") -> {name, uid}."""


class TokenIssuer:
    """Answers TokenRequests."""

    def __init__(self, store: Store, tokens: ServiceAccountTokens, clock: Clock, randomness: Randomness) -> None:
        self._store = store
        self._tokens = tokens
        self._clock = clock
        self._randomness = randomness

    def issue(self, namespace: str, name: str, request: JsonObject) -> JsonObject:
        """Fill in a TokenRequest for an account, in place. Raises NotFound, Invalid, Conflict, BadRequest."""
        metadata = request["metadata"] = request.get("metadata") or {}
        _check_address(metadata, namespace, name)
        account = self._get("core/serviceaccounts", f"{namespace}/", name)["metadata"]
        if (metadata.get("uid") or account["uid"]) != account["uid"]:
            why = f"the UID in the token request ({metadata['uid']}) does not match the UID of the service account"
            raise conflict(_GROUP, "TokenRequest", name, f"{why} ({account['uid']})")
        spec = request["spec"] = request.get("spec") or {}
        spec["audiences"] = spec.get("audiences") or list(self._tokens.audiences)
        seconds = _checked_lifetime(spec)
        bound = self._bound(spec.get("boundObjectRef"), namespace, name)
        now = self._clock.now()
        claims = self._claims(now, seconds, spec["audiences"])
        claims["kubernetes.io"] = {
            "namespace": namespace,
            **bound,
            "serviceaccount": {"name": name, "uid": account["uid"]},
        }
        claims["sub"] = f"{PREFIX}{namespace}:{name}"
        metadata |= {"name": name, "namespace": namespace, "uid": account["uid"], "creationTimestamp": rfc3339(now)}
        request["status"] = {"token": self._tokens.keys.sign(claims), "expirationTimestamp": rfc3339(now + seconds)}
        return request

    def _claims(self, now: float, seconds: int, audiences: list[str]) -> dict[str, Any]:
        return {
            "aud": audiences,
            "exp": int(now) + seconds,
            "iat": int(now),
            "iss": self._tokens.issuer,
            "jti": self._randomness.uuid(),
            "nbf": int(now),
        }

    def _bound(self, reference: JsonObject | None, namespace: str, account: str) -> Bound:
        if reference is None:
            return {}
        kind, name = reference.get("kind", ""), reference.get("name", "")
        if reference.get("apiVersion") != "v1" or kind not in _BUCKETS:
            group, _, version = reference.get("apiVersion", "").rpartition("/")
            raise BadRequest(f"cannot bind token to object of type {group}/{version}, Kind={kind}")
        if not name:
            raise BadRequest("Name parameter required.")
        obj = self._get(_BUCKETS[kind], "" if kind == "Node" else f"{namespace}/", name)
        uid = obj["metadata"]["uid"]
        # With the uid of the stored object: a recreated one of the same name must not revive the token.
        bound: Bound = {kind.lower(): {"name": name, "uid": uid}}
        if kind == "Pod":
            bound |= self._node_of_pod(obj.get("spec") or {}, account)
        if (reference.get("uid") or uid) != uid:
            why = f"the UID in the bound object reference ({reference['uid']}) does not match the UID in record."
            raise conflict("", kind, name, f"{why} The object might have been deleted and then recreated")
        return bound

    def _node_of_pod(self, spec: JsonObject, account: str) -> Bound:
        if spec.get("serviceAccountName") != account:
            text = f'cannot bind token for serviceaccount "{account}" to pod running with different'
            raise BadRequest(f"{text} serviceaccount name.")
        name = spec.get("nodeName")
        if not name:
            return {}
        entry = self._store.head("core/nodes", name)
        uid = {} if entry is None else {"uid": decode(entry)["metadata"]["uid"]}
        return {"node": {"name": name, **uid}}

    def _get(self, bucket: str, prefix: str, name: str) -> JsonObject:
        entry = self._store.head(bucket, f"{prefix}{name}")
        if entry is None:
            raise not_found("", bucket.removeprefix("core/"), name)
        return decode(entry)


def _check_address(metadata: JsonObject, namespace: str, name: str) -> None:
    if (metadata.get("namespace") or namespace) != namespace:
        raise misplaced()
    if (metadata.get("name") or name) != name:
        errors = FieldErrors()
        errors.invalid("metadata.name", metadata["name"], "must match the service account name if specified")
        raise invalid(_GROUP, "TokenRequest", name, errors)


def _checked_lifetime(spec: JsonObject) -> int:
    if spec.get("expirationSeconds") is None:
        spec["expirationSeconds"] = _DEFAULT_LIFETIME
    seconds: int = spec["expirationSeconds"]
    errors = FieldErrors()
    if seconds < _MIN_LIFETIME:
        errors.invalid("spec.expirationSeconds", seconds, "may not specify a duration less than 10 minutes")
    elif seconds > _MAX_LIFETIME:
        errors.invalid("spec.expirationSeconds", seconds, "may not specify a duration larger than 2^32 seconds")
    if errors:
        raise invalid(_GROUP, "TokenRequest", "", errors)
    return seconds
