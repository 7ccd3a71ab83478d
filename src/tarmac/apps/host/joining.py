"""`tarmac join`: makes this host a node, in idempotent steps.

checks → configuration → certificate → containerd → agent → ready

Nothing is created before all checks have passed, and no secret is sent before the server is verified by the token's
hash. A kill between two steps leaves a consistent state: the same command continues, with this or any token of the
cluster. The UDP ports to other nodes are probed last, since probes need the node's key; a closed one is a warning.
"""

from __future__ import annotations

import argparse
import asyncio
import socket
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from tarmac.api.conditions import condition_of
from tarmac.api.nodetokens import BadToken, NodeToken
from tarmac.api.status import ApiError
from tarmac.apps.host.checks import Obstacle, local_obstacles, server_obstacles
from tarmac.apps.host.configuration import documents_in, drop_document, have_document
from tarmac.apps.host.hostlayout import DONE, FAILED, OBSTACLES, USAGE, Machine, SetupFailed, print_progress, setting_up
from tarmac.apps.host.hostservices import Services, Signals, running, services
from tarmac.apps.host.identity import (
    CertificateDenied,
    authorities_of_node,
    authorities_of_server,
    forget_if_revoked,
    mark_beside_server,
    obtain_certificate,
    own_node,
)
from tarmac.apps.host.portcheck import closed_ports
from tarmac.apps.host.serverdiscovery import FoundServer, WrongAuthority, discover
from tarmac.apps.host.tokens import joining_token
from tarmac.base.clock import Clock, SystemClock
from tarmac.base.log import configure
from tarmac.base.stderr import print_error, print_warning
from tarmac.cli.configfile import BadConfigFile
from tarmac.client.errors import ClientError
from tarmac.runtimes.parts import PartMissing, find_parts

KIND = "AgentConfig"


@dataclass(frozen=True)
class Joining:
    """The parameters of a join."""

    addresses: list[str]
    token: NodeToken
    name: str = ""
    labels: dict[str, str] = field(default_factory=dict[str, str])
    node_ips: tuple[str, ...] = ()
    timeout: float = 120.0


class Blocked(SetupFailed):
    """Checks found obstacles; nothing was changed."""

    def __init__(self, obstacles: list[Obstacle]) -> None:
        super().__init__("\n".join(f"{each.check}: {each.text}" for each in obstacles))


def main(options: argparse.Namespace) -> int:
    """Join as a node; return the exit code. `tarmac.apps.host.serverjoining` joins as a server."""
    if options.server or not options.addresses:
        print_error("give either ADDRESS, to join as a node, or --server ADDRESS, to join as a server")
        return USAGE
    try:
        token = joining_token(options)
    except BadToken as error:
        print_error(error)
        return USAGE
    wanted = Joining(options.addresses, token, options.name, options.labels, options.address, options.timeout)
    configure(level="warning")
    return asyncio.run(_main(Machine(), wanted, foreground=options.foreground))


async def _main(machine: Machine, wanted: Joining, *, foreground: bool) -> int:
    async with services(machine, foreground=foreground) as keeper, Signals() as signals:
        code = await run_step(lambda: join_locked(machine, wanted, keeper))
        if code == DONE and foreground:
            await signals.wait()
        return code


async def join_locked(machine: Machine, wanted: Joining, keeper: Services) -> None:
    """Join while holding the setup lock of this host."""
    with setting_up(machine):
        name = await join(machine, wanted, keeper, SystemClock())
    print(f"joined as {name}" if keeper.supervised else f"{name} may join: run the commands above", flush=True)


async def run_step(work: Callable[[], Awaitable[None]]) -> int:
    """Run a setup step; print errors line by line and return the exit code."""
    try:
        await work()
    except Blocked as blocked:
        for line in str(blocked).splitlines():
            print_error(line)
        return OBSTACLES
    except (SetupFailed, BadConfigFile, ApiError, ClientError, OSError, RuntimeError) as error:
        for line in str(error).splitlines() or [type(error).__name__]:
            print_error(line)
        return FAILED
    except asyncio.CancelledError:
        return FAILED
    return DONE


async def join(machine: Machine, wanted: Joining, keeper: Services, clock: Clock) -> str:
    """Perform all remaining steps; return the node's name."""
    known = documents_in(machine.config).get(KIND, {})
    name = wanted.name or known.get("nodeName") or socket.gethostname().lower()
    print_progress("checks")
    found = await _checked(machine, wanted, clock)
    if await _is_ready(machine, name) and running(machine, "agent"):
        print_progress(f"already joined as {name}")
        return name
    print_progress("configuration")
    for difference in have_document(machine.config, KIND, _fields(machine, wanted, name)):
        print_progress(difference)
    print_progress("certificate")
    await forget_if_revoked(machine, name)
    try:
        await obtain_certificate(machine, found, wanted.token, name, clock)
    except CertificateDenied:
        if not known:  # undo the configuration written just now
            drop_document(machine.config, KIND)
        raise
    if wanted.token.ca_hash in authorities_of_server(machine):
        await mark_beside_server(machine, name)
    print_progress("containerd")
    await keeper.start("containerd")
    print_progress("agent")
    await keeper.start("agent")
    if keeper.supervised:
        print_progress("ready")
        await _await_ready(machine, name, keeper, clock, wanted.timeout)
        for each in await closed_ports(machine, name, clock):
            print_warning(each)
    return name


async def _checked(machine: Machine, wanted: Joining, clock: Clock) -> FoundServer:
    """Report all obstacles at once. Raises Blocked, WrongAuthority."""
    obstacles = list(local_obstacles(machine, running=bool(running(machine, "agent"))))
    known = authorities_of_node(machine)
    if known and wanted.token.ca_hash not in known:
        why = f"this machine belongs to cluster sha256:{known[0]}; tarmac leave --force first"
        obstacles.append(Obstacle("membership", why))
    return await reached(obstacles, wanted.addresses, wanted.token, clock)


async def reached(obstacles: list[Obstacle], addresses: list[str], token: NodeToken, clock: Clock) -> FoundServer:
    """Return the server, unless it or the earlier checks have obstacles. Raises Blocked, WrongAuthority."""
    found: FoundServer | None = None
    try:
        found = await discover(addresses, token, clock)
        obstacles += server_obstacles(found)
    except WrongAuthority:
        raise
    except SetupFailed as error:
        obstacles.append(Obstacle("server", str(error)))
    if obstacles or found is None:
        raise Blocked(obstacles)
    return found


def _fields(machine: Machine, wanted: Joining, name: str) -> dict[str, Any]:
    try:
        settings = machine.containerd(find_parts())
    except PartMissing as missing:
        raise SetupFailed(str(missing)) from missing
    fields: dict[str, Any] = {
        "kubeconfig": str(machine.kubeconfig),
        "nodeName": name,
        "rootDir": str(machine.agent),
        "runDir": str(machine.run / "agent"),
        "containerRuntimeEndpoint": settings.endpoint,
        "cniBinDir": str(settings.cni_bin),
        "cniConfDir": str(settings.cni_conf),
        "network": "tarmac",
    }
    if wanted.labels:
        fields["nodeLabels"] = dict(wanted.labels)
    if wanted.node_ips:
        fields["nodeIp"] = list(wanted.node_ips)
    return fields


async def _is_ready(machine: Machine, name: str) -> bool:
    with suppress(ApiError, ClientError):
        node = await own_node(machine, name)
        return node is not None and condition_of(node, "Ready").get("status") == "True"
    return False


async def _await_ready(machine: Machine, name: str, keeper: Services, clock: Clock, seconds: float) -> None:
    deadline = clock.monotonic() + seconds
    while not await _is_ready(machine, name):
        if clock.monotonic() > deadline:
            conditions = await _conditions(machine, name)
            words = [f"{part}: {line}" for part in ("containerd", "agent") for line in keeper.last_words(part)]
            raise SetupFailed(
                "\n".join([f"{name} is not ready after {seconds:.0f} s; it may still come", *conditions, *words])
            )
        await clock.sleep(0.25)


async def _conditions(machine: Machine, name: str) -> list[str]:
    try:
        node = await own_node(machine, name)
    except (ApiError, ClientError) as error:
        return [f"the server says: {error}"]
    conditions = ((node or {}).get("status") or {}).get("conditions") or []
    return [f"{each['type']} is {each['status']}: {each.get('message', '')}" for each in conditions]
