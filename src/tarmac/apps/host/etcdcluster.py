"""Brings the member of this host into etcd: as the first one, or as one more.

One more joins as a learner, which has no vote, and gets its vote when it has all entries: a host that fails on its way
in costs the cluster nothing. Every step looks at etcd's own list first, so a killed command continues.
"""

from __future__ import annotations

import shutil
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from pathlib import Path

import msgspec

from tarmac.apps.host.etcdmember import (
    CLIENT_PORT,
    OwnMember,
    peer_url,
    place_of,
    read_member,
    store_url,
    write_member,
)
from tarmac.apps.host.hostlayout import Machine, SetupFailed
from tarmac.apps.host.hostservices import Services, running
from tarmac.base.clock import Clock
from tarmac.server.security.certificates.pki import Pki
from tarmac.store.etcd._generated import etcd_subset_pb2 as pb
from tarmac.store.etcd.client import EtcdClient
from tarmac.store.interface import Unavailable
from tarmac.store.open import etcd_settings

_RETRY = 0.2
_LOG_LINES = 60
_MAX_CAUSES = 5
_ERRORS = ("error", "panic", "fatal")


class _LogEntry(msgspec.Struct):
    """A line of etcd's log."""

    level: str = ""
    msg: str = ""
    error: str = ""


@asynccontextmanager
async def etcd_client(url: str, clock: Clock, *, without: str = "") -> AsyncGenerator[EtcdClient]:
    """Yield a client of the members that a store's URL names, without the one at an address.

    Raises SetupFailed, also for what etcd does not answer or refuses inside the block.
    """
    try:
        settings = etcd_settings(url)
    except ValueError as error:
        raise SetupFailed(str(error)) from error
    others = tuple(each for each in settings.endpoints if each != place_of(without, CLIENT_PORT))
    client = EtcdClient(replace(settings, endpoints=others or settings.endpoints), clock)
    try:
        yield client
    except Unavailable as error:
        raise SetupFailed(f"etcd: {error}") from error
    finally:
        await client.close()


async def start_first_member(
    machine: Machine, pki: Pki, member: tuple[str, str], keeper: Services, clock: Clock, seconds: float
) -> None:
    """Start the first member, `member` is its name and address, and wait until it responds. Raises SetupFailed."""
    own = read_member(machine)
    if own is None:
        name, address = member
        own = OwnMember(name, address, f"{name}={peer_url(address)}", is_new=True, authority=str(pki.etcd_file))
        write_member(machine, own, pki, clock)
    await _start(machine, keeper)
    if keeper.supervised:
        await _until_responding(machine, own, keeper, clock, seconds)


async def add_member(
    machine: Machine, pki: Pki, member: tuple[str, str], url: str, keeper: Services, clock: Clock, seconds: float
) -> None:
    """Add a member on this host to the cluster that `url` names, and wait for its vote. Raises SetupFailed."""
    name, address = member
    deadline = clock.monotonic() + seconds
    own = read_member(machine)
    if own is None:
        # Before any call: they take the credentials of this host.
        own = OwnMember(name, address, "", is_new=False, authority=str(pki.etcd_file))
        write_member(machine, own, pki, clock)
    async with etcd_client(url, clock, without=own.address) as client:
        # The current list: one of a member that lags behind would cost a member its data.
        if machine.etcd_data.exists() and _at(await client.members(current=True), own.address) is None:
            shutil.rmtree(machine.etcd_data)  # etcd never takes a removed member back
        if not machine.etcd_data.exists():
            own.cluster = await _added(client, own, clock, deadline)
            write_member(machine, own, pki, clock)
        await _start(machine, keeper)
        if keeper.supervised:
            await _promoted(client, own, keeper, clock, deadline)


async def _start(machine: Machine, keeper: Services) -> None:
    if not running(machine, "etcd"):  # a restart would cost the cluster its vote for a moment
        await keeper.start("etcd")


async def _added(client: EtcdClient, own: OwnMember, clock: Clock, deadline: float) -> str:
    """Add a learner unless etcd has it, and return the members for its first start. Raises SetupFailed."""
    trouble = ""
    while clock.monotonic() < deadline:
        try:
            members = await client.members()
            _check_name(members, own)
            if mine := _at(members, own.address):
                if mine.name:
                    raise SetupFailed(_without_its_data(mine.name, own.address))
                pairs = [(own.name if each.id == mine.id else each.name, each.peer_urls) for each in members]
                return ",".join(f"{name}={url}" for name, urls in pairs for url in urls)
            await client.add_learner(peer_url(own.address))
        # An unanswered call may have added it, and another host may be a learner just now, of which etcd takes one.
        except Unavailable as error:
            trouble = str(error)
        await clock.sleep(_RETRY)
    raise SetupFailed(f"etcd: the member was not added: {trouble}; `tarmac etcd members` on a server shows them")


async def _promoted(client: EtcdClient, own: OwnMember, keeper: Services, clock: Clock, deadline: float) -> None:
    """Wait until the member has its vote. Raises SetupFailed."""
    trouble = "it has not started"
    while clock.monotonic() < deadline:
        try:
            mine = _at(await client.members(), own.address)
            if mine is None:
                raise SetupFailed(f"etcd: the member {own.name} was removed meanwhile; run this command again")
            if mine.name and not mine.is_learner:
                return
            if mine.name:
                await client.promote(mine.id)
        except Unavailable as error:  # it lacks entries yet
            trouble = str(error)
        await clock.sleep(_RETRY)
    raise SetupFailed("\n".join([f"etcd: the member {own.name} has no vote yet: {trouble}", *_causes(keeper)]))


async def _until_responding(machine: Machine, own: OwnMember, keeper: Services, clock: Clock, seconds: float) -> None:
    deadline = clock.monotonic() + seconds
    async with etcd_client(store_url(machine, [own.address], Path(own.authority)), clock) as client:
        while not await client.responds(place_of(own.address, CLIENT_PORT)):
            if clock.monotonic() > deadline:
                problem = f"etcd: the member does not respond after {seconds:.0f} s"
                raise SetupFailed("\n".join([problem, *_causes(keeper)]))
            await clock.sleep(_RETRY)


def _causes(keeper: Services) -> list[str]:
    """Return the errors that the member logged last. A panic ends with a stack, whose lines name no cause."""
    lines = keeper.last_words("etcd", _LOG_LINES)
    found = [each for line in lines if (each := _logged_error(line))]
    return [f"etcd: {each}" for each in (found or lines)[-_MAX_CAUSES:]]


def _logged_error(line: str) -> str:
    """Return message and cause of a log line; empty unless it is an error."""
    with suppress(msgspec.MsgspecError):
        entry = msgspec.json.decode(line, type=_LogEntry)
        if entry.level in _ERRORS:
            return ": ".join(filter(None, (entry.msg, entry.error)))
    return ""


def _check_name(members: list[pb.Member], own: OwnMember) -> None:
    """Reject a name of another member: etcd would take both for one. Raises SetupFailed."""
    if any(each.name == own.name and peer_url(own.address) not in each.peer_urls for each in members):
        raise SetupFailed(
            f"etcd: there is a member {own.name} at another address; if its host is lost, on a server: tarmac etcd "
            f"replace {own.name}; else pass another name with --name"
        )


def _without_its_data(name: str, address: str) -> str:
    return (
        f"etcd: the member {name} at {address} has data that this host lacks; on a server: tarmac etcd remove {name}, "
        "then run this command again"
    )


def _at(members: list[pb.Member], address: str) -> pb.Member | None:
    return next((each for each in members if peer_url(address) in each.peer_urls), None)
