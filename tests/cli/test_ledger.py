"""`nodes/NAME/ledger`: the server's ledger of a node equals that of `tarmac node report`."""

from __future__ import annotations

import json

import pytest

from tarmac.api.schema import JsonObject
from tarmac.api.status import Forbidden, NotFound
from tarmac.cli.verbs.nodereport import node_report
from tarmac.server.security.users import User
from tests.cli.test_verbs_on_a_planet import Desk
from tests.controllers.planet import Planet, play

LEDGER = "/api/v1/nodes/dfw-0/ledger"
RBAC = "rbac.authorization.k8s.io"


def test_the_server_and_the_command_have_one_ledger() -> None:
    async def story(planet: Planet) -> None:
        planet.start()
        await planet.apply(replicas=3)
        await planet.ready(3)
        desk = Desk(planet)
        assert await node_report(desk.client, ["dfw-0"], desk.console, "json") == 0
        (reported,) = json.loads(desk.out.getvalue())["nodes"]
        found: JsonObject = await desk.client.get_json(LEDGER)
        assert (found.pop("kind"), found.pop("apiVersion")) == ("NodeLedger", "compute.datumapis.com/v1alpha")
        assert found == reported
        assert (found["city"], len(found["pods"])) == ("DFW", 3)
        with pytest.raises(NotFound):
            await desk.client.get_json("/api/v1/nodes/nobody/ledger")

    play(story)


def test_it_needs_a_right_of_its_own() -> None:
    async def story(planet: Planet) -> None:
        user = User("viewer", groups=("system:authenticated",))
        role: JsonObject = {"kind": "ClusterRole", "metadata": {"name": "ledger"}}
        rules = [{"apiGroups": [""], "resources": ["nodes"], "verbs": ["get", "list"]}]
        binding = {
            "kind": "ClusterRoleBinding", "metadata": {"name": "ledger"},
            "roleRef": {"apiGroup": RBAC, "kind": "ClusterRole", "name": "ledger"},
            "subjects": [{"kind": "User", "name": "viewer", "apiGroup": RBAC}],
        }  # fmt: skip
        for plural, obj in (("clusterroles", {**role, "rules": rules}), ("clusterrolebindings", binding)):
            body = json.dumps({"apiVersion": f"{RBAC}/v1", **obj}).encode()
            await planet.user.call("POST", f"/apis/{RBAC}/v1/{plural}", body=body)
        client = planet.world.reliable(user)
        with pytest.raises(Forbidden, match='cannot get resource "nodes/ledger"'):
            await client.get_json(LEDGER)
        rules[0]["resources"].append("nodes/ledger")
        body = json.dumps([{"op": "replace", "path": "/rules", "value": rules}]).encode()
        headers = {"accept": "application/json", "content-type": "application/json-patch+json"}
        await planet.user.call("PATCH", f"/apis/{RBAC}/v1/clusterroles/ledger", body=body, headers=headers)
        assert (await client.get_json(LEDGER))["node"] == "dfw-0"

    play(story)
