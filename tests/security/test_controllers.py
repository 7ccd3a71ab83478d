"""Each controller has its own user and its own rights, and the audit log names it."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from tarmac.api.identities import controller_user
from tarmac.api.status import Forbidden
from tarmac.apps.control_plane import CONTROLLING, local_transport
from tarmac.client.acting import ActingAs
from tarmac.client.client import Client
from tarmac.client.targets.target import dynamic
from tarmac.client.targets.untyped import SERVICE_ACCOUNTS
from tests.client.backends import our_server

INSTANCES = dynamic("compute.datumapis.com/v1alpha", "instances", "Instance")


async def test_one_that_asks_for_more_is_told_which_right_it_lacks(tmp_path: Path) -> None:
    async with our_server(tmp_path) as running:
        quota = Client(ActingAs(local_transport(running.server, CONTROLLING), controller_user("quota")))
        with pytest.raises(Forbidden) as refused:
            await quota.resource(INSTANCES).delete("web-0", "team")
    assert str(refused.value) == (
        'instances.compute.datumapis.com "web-0" is forbidden: User "system:serviceaccount:kube-system:tarmac-quota" '
        'cannot delete resource "instances" in API group "compute.datumapis.com" in the namespace "team"'
    )


@pytest.mark.parametrize(
    "user", ["system:serviceaccount:kube-system:default", "kubernetes-admin", "system:kube-controller-manager"]
)
async def test_their_process_acts_as_nobody_but_them(tmp_path: Path, user: str) -> None:
    async with our_server(tmp_path) as running:
        somebody = Client(ActingAs(local_transport(running.server, CONTROLLING), user))
        with pytest.raises(Forbidden, match="cannot impersonate resource"):
            await somebody.resource(INSTANCES).list("default")


async def test_the_audit_log_names_the_controller_and_its_process(tmp_path: Path) -> None:
    async with our_server(tmp_path) as running, asyncio.timeout(20):
        accounts = Client(local_transport(running.server, CONTROLLING)).resource(SERVICE_ACCOUNTS)
        async with accounts.watch("default", fields="metadata.name=default") as changes:
            await anext(aiter(changes))
    lines = [json.loads(line) for line in (tmp_path / "audit.log").read_text().splitlines()]
    made = [each for each in lines if each["verb"] == "create" and each["objectRef"]["resource"] == "serviceaccounts"]
    assert {each["impersonatedUser"]["username"] for each in made} == {controller_user("serviceaccount")}
    assert {each["user"]["username"] for each in made} == {CONTROLLING.name}
