"""`tarmac etcd members|remove|replace`: the members of an etcd that Tarmac runs, seen and changed from a server's host.

They speak to etcd itself, with the credentials of this host, so that they work while no server does.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
from typing import Final, NamedTuple

from tarmac.api.status import ApiError, NotFound
from tarmac.apps.commands import parsed
from tarmac.apps.host.configuration import documents_in
from tarmac.apps.host.etcdcluster import etcd_client
from tarmac.apps.host.etcdmember import peer_url, read_member
from tarmac.apps.host.hostlayout import Machine, SetupFailed, print_progress
from tarmac.apps.host.initializing import KIND, print_next_server
from tarmac.apps.serverleases import reached_at
from tarmac.base.clock import Clock, SystemClock
from tarmac.base.log import configure
from tarmac.cli.configfile import BadConfigFile
from tarmac.cli.rendering.text import table
from tarmac.cli.verbs.console import Console
from tarmac.client.client import Client
from tarmac.client.errors import BadKubeconfig, ClientError
from tarmac.client.http import HttpTransport
from tarmac.client.kubeconfig import load
from tarmac.client.targets.untyped import NODES
from tarmac.decide.quorum import removal_refusal, spare_text
from tarmac.store.etcd.client import EtcdClient
from tarmac.store.etcd.memberfollower import endpoint_of
from tarmac.store.interface import Unavailable
from tarmac.store.open import follows_members

_FAILED: Final = 1
_RETRY: Final = 0.5
_REMOVAL_TIMEOUT: Final = 20.0


class EtcdMember(NamedTuple):
    """A member, as etcd lists it."""

    id: int
    name: str
    endpoint: str
    peers: tuple[str, ...]
    votes: bool
    responds: bool


def main(options: argparse.Namespace) -> int:
    """Run one action; return the exit code."""
    configure(level="error")
    console = Console(sys.stdout, sys.stderr)
    try:
        return asyncio.run(_run(Machine(), options, console))
    except (SetupFailed, BadConfigFile, OSError) as error:
        console.fail(str(error))
        return _FAILED


async def _run(machine: Machine, options: argparse.Namespace, console: Console) -> int:
    clock = SystemClock()
    async with etcd_client(_store_of(machine), clock) as client:
        members = await list_members(client)
        if options.action == "members":
            _show(members, options.output, console)
            return 0
        member = _named(members, options.name)
        if options.action == "replace" and member.responds:
            raise SetupFailed(f"{member.name} responds; tarmac leave --delete-data on its host takes it away in order")
        await remove_member(client, members, member, clock)
    console.say(f"etcd: {member.name} removed; {spare_text(_voters(members, member))}\n")
    if options.action == "replace":
        await _print_next_steps(machine, member, console)
    elif member.responds:
        console.info(f"the data of {member.name} are still on its host: tarmac leave --delete-data removes them there")
    return 0


async def list_members(client: EtcdClient) -> list[EtcdMember]:
    """Return all members, each tried. Raises Unavailable."""
    return [
        EtcdMember(
            each.id,
            each.name or "(not started)",
            place := endpoint_of(each),
            tuple(each.peer_urls),
            votes=not each.is_learner,
            responds=bool(place) and await client.responds(place),
        )
        for each in await client.members()
    ]


async def remove_member(client: EtcdClient, members: list[EtcdMember], member: EtcdMember, clock: Clock) -> None:
    """Remove a member. Raises SetupFailed if the quorum would be lost, Unavailable."""
    if member.votes and (why := removal_refusal(_voters(members), member.name)):
        raise SetupFailed(f"etcd: {member.name} stays: {why}")
    deadline = clock.monotonic() + _REMOVAL_TIMEOUT
    while True:
        try:
            await client.remove(member.id)
            return
        except Unavailable:
            if clock.monotonic() > deadline:
                raise
        # etcd refuses a change for five seconds after a member has started; an unanswered call may have removed it.
        await clock.sleep(_RETRY)
        if all(each.id != member.id for each in await client.members()):
            return


async def leave_etcd(machine: Machine, clock: Clock) -> None:
    """Remove the member of this host, unless it is the last one. Raises SetupFailed, OSError."""
    own = read_member(machine)
    if own is None:
        return
    print_progress("etcd")
    # By the other members: a removed one ends, perhaps before it has answered.
    async with etcd_client(_store_of(machine), clock, without=own.address) as client:
        members = await list_members(client)
        mine = next((each for each in members if peer_url(own.address) in each.peers), None)
        if mine is not None and len(members) > 1:
            await remove_member(client, members, mine, clock)


def _store_of(machine: Machine) -> str:
    """Return the URL of the store. Raises SetupFailed, BadConfigFile."""
    document = documents_in(machine.config).get(KIND)
    if document is None:
        raise SetupFailed(f"{machine.config}: this host is no server; run the command on the host of one")
    if not follows_members(document.get("store", "")):
        raise SetupFailed(
            f"{machine.config}: the store is not an etcd that Tarmac runs; its own tools change its members"
        )
    return document["store"]


def _show(members: list[EtcdMember], output: str, console: Console) -> None:
    if output == "json":
        console.show_json({"members": [{**each._asdict(), "id": f"{each.id:x}"} for each in members]})
        return
    rows = [
        (each.name, each.endpoint, "yes" if each.votes else "not yet", "yes" if each.responds else "no")
        for each in members
    ]
    console.say(table(("NAME", "ADDRESS", "VOTES", "RESPONDS"), rows) + f"\n{spare_text(_voters(members))}\n")


def _voters(members: list[EtcdMember], without: EtcdMember | None = None) -> dict[str, bool]:
    return {each.name: each.responds for each in members if each.votes and each != without}


def _named(members: list[EtcdMember], name: str) -> EtcdMember:
    found = [each for each in members if each.name == name]
    if len(found) != 1:
        there = ", ".join(each.name for each in members)
        raise SetupFailed(f"etcd: there is no member {name}; there are {there}")
    return found[0]


async def _print_next_steps(machine: Machine, member: EtcdMember, console: Console) -> None:
    """Print the command for the new host, and that for a node of the lost one."""
    server = parsed(["server", f"--config={machine.config}"])
    try:
        admin = Client(HttpTransport(load(str(machine.data / "kubeconfig")).http))
        try:
            await print_next_server(admin, reached_at([server.listen[0]]), server.listen[1])
            await _print_remaining_node(admin, member.name, console)
        finally:
            await admin.close()
    except (ApiError, ClientError, BadKubeconfig) as error:
        console.warn(f"no server made a token: {error}; later: tarmac token create --server")


async def _print_remaining_node(admin: Client, name: str, console: Console) -> None:
    try:
        await admin.resource(NODES).get(name)
    except NotFound:
        return
    console.info(f"its node is still there; if the host is lost: tarmac node remove {name}")
