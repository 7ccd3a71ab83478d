"""Service-account tokens stored in Secrets of type `kubernetes.io/service-account-token`.

These are Kubernetes' legacy tokens without expiry. A token is valid while its Secret exists and holds exactly this
token, and while its account exists; both must have the uids they had when the token was made. Two claims are not
Kubernetes': the Secret's uid, without which a token would become valid again in a new Secret of the same name, and an
id, without which an RSA key would create the same token again after a user deleted it to invalidate it.
"""

from __future__ import annotations

import base64
import binascii
from hmac import compare_digest
from typing import Any, NamedTuple, Protocol

from tarmac.api.identities import TokenHolder
from tarmac.api.schema import JsonObject
from tarmac.base.randomness import Randomness
from tarmac.server.reader import decode
from tarmac.server.security.credentials import Holds
from tarmac.server.security.tokens.jwt import InvalidToken
from tarmac.server.security.tokens.tokenuses import LAST_USED
from tarmac.store.interface import Entry, Store

ISSUER = "kubernetes/serviceaccount"
SUBJECT = "system:serviceaccount:"
_CLAIM = "kubernetes.io/serviceaccount/"
_INVALID_SINCE = "kubernetes.io/legacy-token-invalid-since"
_INVALIDATED = "Token has been invalidated"


class Signer(Protocol):
    """Signs service-account tokens."""

    def sign(self, claims: dict[str, Any]) -> str:
        """Return the token for these claims."""
        ...


def sign(key: Signer, randomness: Randomness, holder: TokenHolder) -> str:
    """Create a token to store in an account's Secret. Each one is unique."""
    return key.sign(
        {
            "iss": ISSUER,
            "jti": randomness.uuid(),
            "sub": f"{SUBJECT}{holder.namespace}:{holder.account}",
            f"{_CLAIM}namespace": holder.namespace,
            f"{_CLAIM}secret.name": holder.secret,
            f"{_CLAIM}secret.uid": holder.secret_uid,
            f"{_CLAIM}service-account.name": holder.account,
            f"{_CLAIM}service-account.uid": holder.account_uid,
        }
    )


class SecretToken(NamedTuple):
    """The account of a token, the versions of Secret and account that it was checked against, and its last use."""

    holder: TokenHolder
    holds: Holds
    last_used: str


def recognise(store: Store, token: str, claims: dict[str, Any]) -> SecretToken:
    """Check a token after its signature was verified. Raises InvalidToken."""
    holder = _holder(claims)
    secret = _there(store, "core/secrets", holder.namespace, holder.secret, _INVALIDATED)
    obj = decode(secret[2])
    _check_secret(obj, holder, token)
    missing = f'serviceaccounts "{holder.account}" not found'
    account = _there(store, "core/serviceaccounts", holder.namespace, holder.account, missing)
    metadata = decode(account[2])["metadata"]
    if metadata.get("deletionTimestamp"):
        raise InvalidToken(f"ServiceAccount {holder.namespace}/{holder.account} has been deleted")
    if metadata.get("uid") != holder.account_uid:
        claimed = f"does not match claim ({holder.account_uid})"
        raise InvalidToken(f"ServiceAccount UID ({metadata.get('uid')}) {claimed}")
    last_used = (obj["metadata"].get("labels") or {}).get(LAST_USED, "")
    return SecretToken(holder, (secret, account), last_used)


def _holder(claims: dict[str, Any]) -> TokenHolder:
    names = ("namespace", "service-account.name", "service-account.uid", "secret.name", "secret.uid")
    said = [claims.get(f"{_CLAIM}{name}") for name in names]
    texts = [each for each in said if isinstance(each, str) and each]
    if len(texts) != len(names):
        raise InvalidToken("a claim is missing")
    holder = TokenHolder(*texts)
    if claims.get("sub") != f"{SUBJECT}{holder.namespace}:{holder.account}":
        raise InvalidToken("sub claim is invalid")
    return holder


def _check_secret(secret: JsonObject, holder: TokenHolder, token: str) -> None:
    metadata = secret["metadata"]
    if metadata.get("deletionTimestamp") or metadata.get("uid") != holder.secret_uid:
        raise InvalidToken(_INVALIDATED)
    # The signature is not enough: a user invalidates a token by removing it from its Secret.
    if not compare_digest(_token_in(secret), token.encode()):
        raise InvalidToken("Token does not match server's copy")
    if (metadata.get("labels") or {}).get(_INVALID_SINCE):
        place = f"{holder.namespace}/{holder.secret} for service account {holder.namespace}/{holder.account}"
        use = "Use tokens from the TokenRequest API or manually created secret-based tokens"
        label = f"remove the '{_INVALID_SINCE}' label from the secret to temporarily allow use of this token"
        raise InvalidToken(f"the token in secret {place} has been marked invalid. {use}, or {label}")


def _token_in(secret: JsonObject) -> bytes:
    try:
        return base64.b64decode((secret.get("data") or {}).get("token") or "", validate=True)
    except binascii.Error:
        return b""


def _there(store: Store, bucket: str, namespace: str, name: str, missing: str) -> tuple[str, str, Entry]:
    key = f"{namespace}/{name}"
    entry = store.get(bucket, key)
    if entry is None:
        raise InvalidToken(missing)
    return bucket, key, entry
