"""Bootstrap tokens: `<id>.<secret>`, stored as Secrets of type bootstrap.kubernetes.io/token in kube-system.

They let a new node request its certificate, and nothing else. A token with `tarmac-location` in its data is for nodes
of that Location: its user carries token id and Location as extra, and the server writes them into the user's requests.
A token with `tarmac-kind` set to `server` lets a new server request its keys; it is not for nodes and is in no other
group.
"""

from __future__ import annotations

import base64
import re
from hmac import compare_digest
from math import inf

from tarmac.api.identities import BOOTSTRAPPERS, LOCATION_OF_TOKEN, TOKEN_OF_NODE
from tarmac.api.nodetokens import KIND, SERVER, SERVERS_GROUP
from tarmac.base.clock import Clock, parse_rfc3339
from tarmac.server.reader import decode
from tarmac.server.security.credentials import Credential
from tarmac.server.security.users import User
from tarmac.store.interface import Store

PREFIX = "system:bootstrap:"
_TOKEN = re.compile(r"([a-z0-9]{6})\.([a-z0-9]{16})", re.ASCII)
_EXTRA_GROUP = re.compile(r"system:bootstrappers:[a-z0-9:-]{0,255}[a-z0-9]", re.ASCII)
_SECRETS = "core/secrets"


def recognise(token: str, store: Store, clock: Clock) -> Credential | None:
    """Return the token's credential, or None if it is no valid bootstrap token."""
    match = _TOKEN.fullmatch(token)
    if match is None:
        return None
    name = f"kube-system/bootstrap-token-{match[1]}"
    entry = store.get(_SECRETS, name)
    if entry is None:
        return None
    secret = decode(entry)
    if secret["metadata"].get("deletionTimestamp") or secret.get("type") != "bootstrap.kubernetes.io/token":
        return None
    data = {key: base64.b64decode(value).decode(errors="replace") for key, value in (secret.get("data") or {}).items()}
    expires = _expiry(data.get("expiration"))
    # compared as bytes: `compare_digest` rejects non-ASCII strings, which a malformed Secret may contain
    matches = compare_digest(data.get("token-secret", "").encode(), match[2].encode())
    matches = matches and data.get("token-id") == match[1]
    usable = matches and expires > clock.now() and data.get("usage-bootstrap-authentication") == "true"
    groups = [group for group in data.get("auth-extra-groups", "").split(",") if group]
    # Groups outside system:bootstrappers are refused: a user who may write Secrets of kube-system could otherwise mint
    # members of system:masters.
    if not usable or not all(_EXTRA_GROUP.fullmatch(group) for group in groups):
        return None
    if data.get(KIND) == SERVER:
        user = User(f"{PREFIX}{match[1]}", groups=(SERVERS_GROUP, "system:authenticated"))
        return Credential(user, expires, ((_SECRETS, name, entry),))
    extra = {TOKEN_OF_NODE: (match[1],)}
    if location := data.get("tarmac-location"):
        extra[LOCATION_OF_TOKEN] = (location,)
    groups = [BOOTSTRAPPERS, *sorted(set(groups)), "system:authenticated"]
    user = User(f"{PREFIX}{match[1]}", groups=tuple(groups), extra=extra)
    return Credential(user, expires, ((_SECRETS, name, entry),))


def _expiry(text: str | None) -> float:
    if not text:
        return inf
    try:
        return parse_rfc3339(text)
    except ValueError:
        return 0.0
