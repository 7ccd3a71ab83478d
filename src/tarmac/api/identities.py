"""As whom controllers act: the names that their roles are bound to, the server's admission looks for and audits show.

Each controller is a service account of its own in `kube-system`. The process that runs them is one more: it feeds the
caches that they share, holds the lease, and may act as any of them (`impersonate`), so one credential is enough.
"""

from __future__ import annotations

from typing import NamedTuple

NAMESPACE = "kube-system"
PROCESS = "tarmac-controllers"
"""The account of the process, and what it is called in events and leases."""

DEPLOYMENT_SCHEDULER = "deployment-scheduler"
POD_SCHEDULER = "pod-scheduler"
_PARTS = {"scheduler": (DEPLOYMENT_SCHEDULER, POD_SCHEDULER)}

BOOTSTRAP = "bootstrap"
"""Makes what controllers rely on, where they run apart from the server."""

BOOTSTRAPPERS = "system:bootstrappers"
TOKEN_OF_NODE = "tarmac.dev/token"
"""The id of the bootstrap token that a request comes with (extra of its user), or that a Node was made for."""
LOCATION_OF_TOKEN = "tarmac.dev/location"
"""The Location whose nodes a bootstrap token is for (extra of its user)."""

VERSION = "tarmac.dev/version"
"""On Nodes and on the Leases of servers: which Tarmac they run."""

RESTORED = "tarmac.dev/restored"
"""On Nodes: when the store that knows them was restored from a backup. What runs there may be newer than the store."""


class TokenHolder(NamedTuple):
    """Whose token stands in which Secret."""

    namespace: str
    account: str
    account_uid: str
    secret: str
    secret_uid: str


def identities_of(controller: str) -> tuple[str, ...]:
    """The names under which a controller, called as `--controllers` calls it, acts."""
    return _PARTS.get(controller, (controller,))


def account(controller: str) -> str:
    """The service account of a controller."""
    return f"tarmac-{controller}"


def user_name(account: str) -> str:
    """What a server calls a service account."""
    return f"system:serviceaccount:{NAMESPACE}:{account}"


def controller_user(controller: str) -> str:
    """The user that a controller acts as."""
    return user_name(account(controller))
