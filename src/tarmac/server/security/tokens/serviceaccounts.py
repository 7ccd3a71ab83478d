"""Authenticates service-account tokens, including those stored in Secrets.

A token names its account and optionally a Pod, Secret or Node it is bound to, each with its uid. It is accepted if a
key of the cluster signed it, it is within its validity period, this server is in its audience, and every object it
names still exists with that uid and was not deleted more than a minute ago.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import inf
from typing import Any

import msgspec

from tarmac.api.schema import JsonObject
from tarmac.base.clock import Clock, parse_rfc3339
from tarmac.http.messages import Request, Response
from tarmac.server.reader import decode
from tarmac.server.security.credentials import Credential, Holds
from tarmac.server.security.tokens import secrettokens
from tarmac.server.security.tokens.jwt import InvalidToken, SigningKey
from tarmac.server.security.tokens.tokenkeys import TokenKeys
from tarmac.server.security.tokens.tokenuses import TokenUses
from tarmac.server.security.users import User, account_groups
from tarmac.store.interface import Entry, Store

ISSUER = "https://kubernetes.default.svc"
PREFIX = secrettokens.SUBJECT
_LEEWAY = 60.0
_EXTRA = "authentication.kubernetes.io/"


class ServiceAccountTokens:
    """Authenticates tokens signed with the cluster's keys; `key` is the first of them.

    `audiences` are the names of this API server.
    """

    def __init__(
        self,
        store: Store,
        key: SigningKey,
        clock: Clock,
        issuer: str = ISSUER,
        audiences: Sequence[str] = (),
        uses: TokenUses | None = None,
    ) -> None:
        self._store = store
        self._clock = clock
        self._uses = uses
        self.keys = TokenKeys(store, key)
        self.issuer = issuer
        self.audiences = tuple(audiences) or (issuer,)

    def recognise(self, token: str, audiences: Sequence[str] = ()) -> Credential:
        """Return the credential of a token for one of `audiences` (default: this server). Raises InvalidToken."""
        # First: every claim read below is one that the cluster's own key signed, of the types that `tokenrequests`
        # writes.
        claims = self.keys.verify(token)
        if claims.get("iss") == secrettokens.ISSUER:
            return self._of_secret(token, claims, tuple(audiences))
        if claims.get("iss") != self.issuer:
            raise InvalidToken
        self._check_time(claims)
        matched = _matched(claims.get("aud"), tuple(audiences) or self.audiences)
        private = claims.get("kubernetes.io") or {}
        holds = (*self._existing(private), self.keys.hold)
        return Credential(_user(claims, private), float(claims["exp"]), holds, matched)

    def _of_secret(self, token: str, claims: dict[str, Any], audiences: tuple[str, ...]) -> Credential:
        """Authenticate a Secret's token.

        It has no audience, so it is valid for this server only, until its Secret is deleted.

        It expires from the cache daily, so that the Secret's last-used date is updated.
        """
        matched = _matched(list(self.audiences), audiences or self.audiences)
        holder, holds, last_used = secrettokens.recognise(self._store, token, claims)
        groups = (*account_groups(holder.namespace), "system:authenticated")
        user = User(f"{PREFIX}{holder.namespace}:{holder.account}", holder.account_uid, groups)
        until = self._uses.note(holder, last_used) if self._uses is not None else inf
        return Credential(user, until, (*holds, self.keys.hold), matched)

    def _check_time(self, claims: dict[str, Any]) -> None:
        now = self._clock.now()
        if now > claims.get("exp", 0) + _LEEWAY:
            raise InvalidToken("service account token has expired")
        if now < claims.get("nbf", 0) - _LEEWAY:
            raise InvalidToken("service account token is not valid yet")
        if now < claims.get("iat", 0) - _LEEWAY:
            raise InvalidToken("service account token is issued in the future")

    def _existing(self, private: JsonObject) -> Holds:
        """Return the entries of all objects that the token names. Raises InvalidToken if one is missing."""
        namespace = f"{private.get('namespace', '')}/"
        named = [("core/serviceaccounts", namespace, "serviceaccount")]
        if "secret" in private:
            named.append(("core/secrets", namespace, "secret"))
        if "pod" in private:
            named.append(("core/pods", namespace, "pod"))
        elif "node" in private:  # with a pod, the node is informational
            named.append(("core/nodes", "", "node"))
        return tuple(self._alive(bucket, prefix, _reference(private, claim)) for bucket, prefix, claim in named)

    def _alive(self, bucket: str, prefix: str, reference: dict[str, str]) -> tuple[str, str, Entry]:
        name = f"{prefix}{reference['name']}"
        entry = self._store.get(bucket, name)
        if entry is None:
            raise InvalidToken("service account token has been invalidated")
        metadata = decode(entry)["metadata"]
        if metadata.get("uid") != reference["uid"]:
            raise InvalidToken(f"{bucket} UID ({metadata.get('uid')}) does not match claim ({reference['uid']})")
        deleted = metadata.get("deletionTimestamp")
        if deleted and parse_rfc3339(deleted) < self._clock.now() - _LEEWAY:
            raise InvalidToken("service account token has been invalidated")
        return bucket, name, entry

    def documents(self) -> dict[str, Callable[[Request], Response]]:
        """Return the handlers of the discovery documents, by path. Other services verify our tokens with them."""
        return {"/.well-known/openid-configuration": self._discovery, "/openid/v1/jwks": self._jwks}

    def _discovery(self, request: Request) -> Response:
        document = {
            "issuer": self.issuer,
            # From the client's own Host header: a client that lies misleads only itself, since the answer is not
            # cached.
            "jwks_uri": f"https://{request.headers.get('host', 'localhost')}/openid/v1/jwks",
            "response_types_supported": ["id_token"],
            "subject_types_supported": ["public"],
            "id_token_signing_alg_values_supported": self.keys.algorithms,
        }
        return Response(200, msgspec.json.encode(document))

    def _jwks(self, request: Request) -> Response:
        return Response(200, msgspec.json.encode({"keys": self.keys.public_jwks()}), "application/jwk-set+json")


def _matched(claimed: Any, wanted: tuple[str, ...]) -> tuple[str, ...]:
    given: list[str] = [claimed] if isinstance(claimed, str) else claimed or []
    matched = tuple(audience for audience in wanted if audience in given)
    if not matched:
        raise InvalidToken(f"token audiences {_quoted(given)} is invalid for the target audiences {_quoted(wanted)}")
    return matched


def _quoted(names: Sequence[str]) -> str:
    return "[{}]".format(" ".join(f'"{name}"' for name in names))


def _user(claims: dict[str, Any], private: JsonObject) -> User:
    namespace, account = private["namespace"], private["serviceaccount"]
    extra: dict[str, tuple[str, ...]] = {}
    if "jti" in claims:
        extra[f"{_EXTRA}credential-id"] = (f"JTI={claims['jti']}",)
    for claim in ("node", "pod"):
        for field, value in (private.get(claim) or {}).items():
            extra[f"{_EXTRA}{claim}-{field}"] = (value,)
    groups = (*account_groups(namespace), "system:authenticated")
    return User(f"{PREFIX}{namespace}:{account['name']}", account["uid"], groups, extra)


def _reference(private: JsonObject, claim: str) -> dict[str, str]:
    reference = private.get(claim)
    if not isinstance(reference, dict) or "name" not in reference or "uid" not in reference:
        raise InvalidToken(f"claim {claim} is incomplete")
    return reference
