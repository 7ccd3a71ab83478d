"""Tokens that join nodes and servers, and certificates that are good no longer: how both are written down.

A token is `tarmac1.<id>.<secret>.<hash>`. `<id>.<secret>` is a bootstrap token of Kubernetes', kept as a Secret of
`kube-system`; the hash says which authority's servers may see it. Our fields of that Secret say where the nodes belong,
how many there may be, and the names that have been used, each with the moment of its first use.

A revocation says that certificates of a name which were issued before a moment are refused. All stand in one ConfigMap,
under the SHA-256 of the name, since names may hold characters that keys may not.
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
NODE: Final = "node"
SERVER: Final = "server"
SERVERS_GROUP: Final = f"{BOOTSTRAPPERS}:tarmac:servers"
"""Whose members may ask for what makes a machine a server. They are no bootstrappers of nodes."""
MOST_SERVER_TTL: Final = 3600.0
MOST_USES: Final = 1000
"""Each use rewrites the Secret with all names so far; whoever joins more machines takes a token without a count."""

AUTHORITIES_PATH: Final = "/tarmac/v1/ca"
"""Where a server shows the certificates of its authorities, to anybody."""

SERVERS_PATH: Final = "/tarmac/v1/servers"
"""Where a machine with a server token asks for what makes it a server."""

REVOKED_MAP: Final = "tarmac-revoked"
KEPT: Final = 366 * 24 * 3600.0
"""Longer than any certificate lasts, so nothing that was revoked is good again."""

LEAVING: Final = "tarmac.dev/leaving"
"""On a Node: until when its pods may take their time before the node goes."""
DELETE_DISKS: Final = "tarmac.dev/delete-disks"
"""On a Node that leaves: its disks and what is on them go with it."""

_TOKEN = re.compile(r"tarmac1\.([a-z0-9]{6})\.([a-z0-9]{16})\.([0-9a-f]{64})", re.ASCII)


class BadToken(ValueError):
    """It is no token of `tarmac token create`."""


class NodeToken(NamedTuple):
    """What a machine is given to join with."""

    id: str
    secret: str
    ca_hash: str

    @property
    def text(self) -> str:
        """As people pass it on."""
        return f"tarmac1.{self.id}.{self.secret}.{self.ca_hash}"

    @property
    def credential(self) -> str:
        """The part that the server knows. Only a server of the authority that `ca_hash` names may see it."""
        return f"{self.id}.{self.secret}"


def parse_token(text: str) -> NodeToken:
    """Read one. Raises BadToken, which never shows what was given: it may be most of a secret."""
    match = _TOKEN.fullmatch(text.strip())
    if match is None:
        raise BadToken("this is no token of `tarmac token create`: tarmac1.ID.SECRET.HASH, 96 characters in all")
    return NodeToken(match[1], match[2], match[3])


def token_secret(token: NodeToken, location: str, uses: int, expires: str) -> JsonObject:
    """The Secret that stands for a new token of a Location's nodes; without a Location, of one server."""
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
    """The data of a Secret as text. What is no text, which only a mistake puts there, is empty."""
    found: dict[str, str] = {}
    for name, value in (secret.get("data") or {}).items():
        try:
            found[name] = base64.b64decode(value).decode()
        except (binascii.Error, UnicodeDecodeError):
            found[name] = ""
    return found


def used_names(fields: Mapping[str, str]) -> dict[str, str]:
    """The names that a token has joined, each with when. Raises ValueError."""
    found = json.loads(fields.get(USED) or "{}")
    if not isinstance(found, dict):
        raise ValueError(f"{USED} is no JSON object")  # noqa: TRY004
    return {str(name): str(at) for name, at in found.items()}


def revocation_key(name: str) -> str:
    """Where the revocation of a common name stands."""
    return sha256(name.encode()).hexdigest()


def revocation(name: str, now: float) -> str:
    """Certificates of this name that were issued until now are refused.

    Certificates count whole seconds, so `before` is the end of this one.
    """
    return json.dumps({"name": name, "before": rfc3339(ceil(now))})


def refused_before(value: str) -> float:
    """The moment that a revocation names. One that cannot be read refuses whatever its key stands for."""
    try:
        return parse_rfc3339(json.loads(value)["before"])
    except (ValueError, TypeError, KeyError):
        return inf
