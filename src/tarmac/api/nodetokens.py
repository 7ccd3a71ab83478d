"""Formats of join tokens for nodes and servers, and of certificate revocations.

A token is `tarmac1.<id>.<secret>.<hash>`. `<id>.<secret>` is a Kubernetes bootstrap token, stored as a Secret in
`kube-system`; the hash names the authority, and a client shows the token only to servers of that authority. Our fields
of that Secret hold the Location of the nodes, the number of permitted uses, the names used so far, each with the time
of its first use, and the digests of the keys that each name was used with.

A revocation rejects certificates of a name that were issued before a given time. All revocations are in one ConfigMap,
under the SHA-256 of the name, since names may contain characters that keys may not.
"""

from __future__ import annotations

import base64
import binascii
import json
import re
from collections.abc import Mapping
from hashlib import sha256
from math import ceil, inf
from typing import Final, NamedTuple

from tarmac.api.identities import BOOTSTRAPPERS
from tarmac.api.schema import JsonObject
from tarmac.base.clock import parse_rfc3339, rfc3339

SECRET_PREFIX: Final = "bootstrap-token-"
SECRET_TYPE: Final = "bootstrap.kubernetes.io/token"
KIND: Final = "tarmac-kind"
LOCATION: Final = "tarmac-location"
USES: Final = "tarmac-uses"
USED: Final = "tarmac-used"
USED_KEYS: Final = "tarmac-used-keys"
NODE: Final = "node"
SERVER: Final = "server"
SERVERS_GROUP: Final = f"{BOOTSTRAPPERS}:tarmac:servers"
"""Members may request server credentials. They are not bootstrappers of nodes."""
MAX_SERVER_TTL: Final = 3600.0
MAX_USES: Final = 1000
"""Each use rewrites the Secret with all names so far. To join more machines, create a token without a count."""

AUTHORITIES_PATH: Final = "/tarmac/v1/ca"
"""Path of the authorities' certificates. Needs no authentication."""

SERVERS_PATH: Final = "/tarmac/v1/servers"
"""Path where a machine with a server token requests server credentials."""

REVOKED_MAP: Final = "tarmac-revoked"
KEPT: Final = 366 * 24 * 3600.0
"""Longer than the lifetime of any certificate, so that no revoked certificate becomes valid again."""

LEAVING: Final = "tarmac.dev/leaving"
"""On a Node: the deadline for its pods to terminate before the node is removed."""
DELETE_DISKS: Final = "tarmac.dev/delete-disks"
"""On a Node that leaves: delete its disks with their content."""

_TOKEN = re.compile(r"tarmac1\.([a-z0-9]{6})\.([a-z0-9]{16})\.([0-9a-f]{64})", re.ASCII)


class BadToken(ValueError):
    """The text is not a token of `tarmac token create`."""


class NodeToken(NamedTuple):
    """A join token."""

    id: str
    secret: str
    ca_hash: str

    @property
    def text(self) -> str:
        """The token as users pass it on."""
        return f"tarmac1.{self.id}.{self.secret}.{self.ca_hash}"

    @property
    def credential(self) -> str:
        """The part that the server knows. It may be sent only to a server of the authority that `ca_hash` names."""
        return f"{self.id}.{self.secret}"


def parse_token(text: str) -> NodeToken:
    """Parse a token. Raises BadToken, which never quotes the text: it may be most of a secret."""
    match = _TOKEN.fullmatch(text.strip())
    if match is None:
        raise BadToken("not a join token; give the output of `tarmac token create`, tarmac1.ID.SECRET.HASH")
    return NodeToken(match[1], match[2], match[3])


def token_secret(token: NodeToken, location: str, uses: int, expires: str) -> JsonObject:
    """Return the Secret of a new token for nodes of a Location or, without a Location, for one server."""
    data = {
        "token-id": token.id,
        "token-secret": token.secret,
        "expiration": expires,
        "usage-bootstrap-authentication": "true",
        "auth-extra-groups": f"{BOOTSTRAPPERS}:tarmac:nodes" if location else SERVERS_GROUP,
        KIND: NODE if location else SERVER,
        **({LOCATION: location} if location else {}),
        USES: str(uses),
        USED: "{}",
    }
    metadata = {"name": SECRET_PREFIX + token.id, "namespace": "kube-system"}
    return {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "type": SECRET_TYPE, "stringData": data}


def secret_fields(secret: JsonObject) -> dict[str, str]:
    """Return the data of a Secret as text. A value that is not text can only be a mistake and becomes empty."""
    found: dict[str, str] = {}
    for name, value in (secret.get("data") or {}).items():
        try:
            found[name] = base64.b64decode(value).decode()
        except (binascii.Error, UnicodeDecodeError):
            found[name] = ""
    return found


def used_names(fields: Mapping[str, str]) -> dict[str, str]:
    """Return the names that a token has joined, each with the time. Raises ValueError."""
    found = json.loads(fields.get(USED) or "{}")
    if not isinstance(found, dict):
        raise ValueError(f"{USED} is no JSON object")  # noqa: TRY004
    return {str(name): str(at) for name, at in found.items()}


def used_keys(fields: Mapping[str, str]) -> dict[str, list[str]]:
    """Return the digests of the keys of each name that a token has joined. Raises ValueError."""
    found = json.loads(fields.get(USED_KEYS) or "{}")
    if not isinstance(found, dict) or not all(isinstance(each, list) for each in found.values()):
        raise ValueError(f"{USED_KEYS} is no JSON object of lists")
    return {str(name): [str(key) for key in keys] for name, keys in found.items()}


def revocation_key(name: str) -> str:
    """Return the ConfigMap key for the revocation of a common name."""
    return sha256(name.encode()).hexdigest()


def revocation(name: str, now: float) -> str:
    """Return a revocation of all certificates of this name issued until now.

    Certificate times have whole seconds, so `before` is rounded up to the next one.
    """
    return json.dumps({"name": name, "before": rfc3339(ceil(now))})


def refused_before(value: str) -> float:
    """Return the time before which certificates are rejected.

    An unreadable revocation rejects all certificates of its name.
    """
    try:
        return parse_rfc3339(json.loads(value)["before"])
    except (ValueError, TypeError, KeyError):
        return inf
