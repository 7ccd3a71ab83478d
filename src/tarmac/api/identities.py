"""Identities of the controllers: the names in role bindings, in the server's admission and in audit logs.

Each controller is a service account of its own in `kube-system`. The process that runs them is one more: it feeds the
shared caches, holds the lease, and may act as any of them (`impersonate`), so one credential is enough.
"""

from __future__ import annotations

from typing import NamedTuple

NAMESPACE = "kube-system"
PROCESS = "tarmac-controllers"
"""The account of the process, and its name in events and leases."""

DEPLOYMENT_SCHEDULER = "deployment-scheduler"
POD_SCHEDULER = "pod-scheduler"
_PARTS = {"scheduler": (DEPLOYMENT_SCHEDULER, POD_SCHEDULER)}

BOOTSTRAP = "bootstrap"
"""Creates the objects that controllers depend on, where they run apart from the server."""

BOOTSTRAPPERS = "system:bootstrappers"
TOKEN_OF_NODE = "tarmac.dev/token"
"""The id of the bootstrap token of a request (extra of its user), or of the token that a Node was created for."""
KEY_OF_NODE = "tarmac.dev/key"
"""On a Node created for a token: the SHA-256 of the public key that the token was used for."""
LOCATION_OF_TOKEN = "tarmac.dev/location"
"""The Location that a bootstrap token admits nodes to (extra of its user)."""

CERTIFICATE_NOT_BEFORE = "tarmac.dev/certificate-not-before"
"""Extra of the user in a node's SubjectAccessReview: the start of the certificate's validity, as RFC 3339.

The server denies the request if the certificate was revoked.
"""

VERSION = "tarmac.dev/version"
"""On Nodes and on the Leases of servers: their Tarmac version."""

RESTORED = "tarmac.dev/restored"
"""On Nodes: the time when the store was restored from a backup. Pods on the node may be newer than the store."""


class TokenHolder(NamedTuple):
    """The service account of a token, and the Secret that holds it."""

    namespace: str
    account: str
    account_uid: str
    secret: str
    secret_uid: str


def identities_of(controller: str) -> tuple[str, ...]:
    """Return the identities of a controller, given its name in `--controllers`."""
    return _PARTS.get(controller, (controller,))


def account(controller: str) -> str:
    """Return the service account of a controller."""
    return f"tarmac-{controller}"


def user_name(account: str) -> str:
    """Return the user name of a service account."""
    return f"system:serviceaccount:{NAMESPACE}:{account}"


def controller_user(controller: str) -> str:
    """Return the user name of a controller."""
    return user_name(account(controller))
