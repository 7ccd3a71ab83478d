"""An object that comes into being by an apply or a replacement takes the right to create it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tarmac.api.status import Forbidden
from tarmac.apps.control_plane import local_transport
from tarmac.client.client import Client
from tarmac.client.targets.target import dynamic
from tarmac.client.targets.untyped import CONFIG_MAPS, LEASES
from tarmac.server.security.users import User
from tests.client.backends import ADMIN, our_server

RBAC = "rbac.authorization.k8s.io"
ROLES = dynamic(f"{RBAC}/v1", "roles", "Role")
BINDINGS = dynamic(f"{RBAC}/v1", "rolebindings", "RoleBinding")
JANE = User("jane", groups=("system:authenticated",))


async def _let_jane(admin: Client, *verbs: str) -> None:
    place = {"name": "jane", "namespace": "default"}
    rule = {"apiGroups": ["", "coordination.k8s.io"], "resources": ["configmaps", "leases"], "verbs": list(verbs)}
    await admin.resource(ROLES).apply({"metadata": place, "rules": [rule]} | _is("Role"), manager="test")
    reference = {"apiGroup": RBAC, "kind": "Role", "name": "jane"}
    subjects = [{"apiGroup": RBAC, "kind": "User", "name": "jane"}]
    binding = {"metadata": place, "roleRef": reference, "subjects": subjects}
    await admin.resource(BINDINGS).apply(binding | _is("RoleBinding"), manager="test")


def _is(kind: str) -> dict[str, str]:
    return {"apiVersion": f"{RBAC}/v1", "kind": kind}


async def test_patch_and_update_rights_do_not_allow_creating(tmp_path: Path) -> None:
    async with our_server(tmp_path) as running:
        admin, jane = (Client(local_transport(running.server, user)) for user in (ADMIN, JANE))
        place = {"name": "mine", "namespace": "default"}
        written = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": place, "data": {"a": "b"}}
        held = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": place}
        await _let_jane(admin, "patch", "update")
        with pytest.raises(Forbidden, match='User "jane" cannot create resource "configmaps" in API group ""'):
            await jane.resource(CONFIG_MAPS).apply(written, manager="jane")
        with pytest.raises(Forbidden, match='User "jane" cannot create resource "leases"'):
            await jane.resource(LEASES).update(held)
        await _let_jane(admin, "patch", "update", "create")
        await jane.resource(CONFIG_MAPS).apply(written, manager="jane")
        await jane.resource(LEASES).update(held)


async def test_existing_objects_change_without_the_create_right(tmp_path: Path) -> None:
    async with our_server(tmp_path) as running:
        admin, jane = (Client(local_transport(running.server, user)) for user in (ADMIN, JANE))
        await _let_jane(admin, "patch")
        made = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "mine", "namespace": "default"}}
        await admin.resource(CONFIG_MAPS).create(made)
        changed = await jane.resource(CONFIG_MAPS).apply({**made, "data": {"a": "b"}}, manager="jane")
        assert changed["data"] == {"a": "b"}
