"""`tarmac doctor`: runs every check of this host and of its cluster, and prints one list.

Checks are independent of each other. One that cannot run here, without root, a server or a right, is listed as skipped
with the reason. The checks themselves belong to `config check`, `join`, `status` and `upgrade check`.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
from collections.abc import AsyncIterator, Iterable, Iterator
from email.utils import parsedate_to_datetime
from pathlib import Path
from typing import Final, Literal, NamedTuple

from tarmac import __version__
from tarmac.api.status import ApiError
from tarmac.apps.backups.hoststores import layout_named
from tarmac.apps.configcheck import clashes_of, documents_of
from tarmac.apps.host.checks import MAX_SKEW, Obstacle, local_obstacles
from tarmac.apps.host.hostlayout import Machine
from tarmac.apps.host.hostservices import running
from tarmac.apps.upgradecheck import upgrade_obstacles
from tarmac.base.clock import SystemClock
from tarmac.base.duration import human_duration
from tarmac.base.log import configure
from tarmac.cli.configfile import BadConfigFile
from tarmac.cli.flags import local_kubeconfig
from tarmac.cli.rendering.text import table
from tarmac.cli.verbs.clusterstatus import gather
from tarmac.cli.verbs.console import Console
from tarmac.client.client import Client
from tarmac.client.errors import BadKubeconfig, ClientError
from tarmac.client.http import HttpTransport
from tarmac.client.kubeconfig import load
from tarmac.client.transport import ClientRequest
from tarmac.runtimes.qemu.accelerator import kvm_group
from tarmac.runtimes.qemu.jail import KVM

State = Literal["ok", "warning", "failed", "skipped"]
FAILED: Final = 1
_SERVER_TIMEOUT: Final = 10.0
_MILD: Final = frozenset(("backup", "fields"))  # obstacles to an upgrade; a cluster runs well with them


class DoctorCheck(NamedTuple):
    """The result of one check. `message` names the fault and the remedy."""

    check: str
    state: State
    message: str = ""


def main(options: argparse.Namespace) -> int:
    """Print the list; return 1 if a check failed."""
    configure(level="error")
    console = Console(sys.stdout, sys.stderr)
    found = asyncio.run(_collect(options))
    if options.output == "json":
        console.show_json([each._asdict() for each in found])
    else:
        console.say(report(found))
    return FAILED if any(each.state == "failed" for each in found) else 0


def report(found: Iterable[DoctorCheck]) -> str:
    """Return the table, and a line that counts."""
    rows = [(each.check, each.state, each.message) for each in found]
    failed = sum(state == "failed" for _, state, _ in rows)
    return table(("CHECK", "STATE", "MESSAGE"), rows) + f"\n{failed or 'no'} of {len(rows)} checks failed\n"


async def _collect(options: argparse.Namespace) -> list[DoctorCheck]:
    machine = Machine(config=options.config)
    found = [*check_configuration(machine.config), *check_host(machine), check_kvm()]
    try:
        connection = load(options.kubeconfig, options.context, local=local_kubeconfig())
    except (BadKubeconfig, OSError) as error:
        return [*found, DoctorCheck("server", "skipped", str(error))]
    client = Client(HttpTransport(connection.http))
    try:
        found += [each async for each in check_cluster(client)]
    finally:
        await client.close()
    return [*found, *await _check_server_host(options)]


def check_configuration(file: Path) -> Iterator[DoctorCheck]:
    """Check the configuration file by itself and against this host."""
    if not file.exists():
        yield DoctorCheck("configuration", "skipped", f"there is no {file}: this host has not joined a cluster")
        return
    try:
        clashes = list(clashes_of(file, documents_of(file)))
    except (BadConfigFile, OSError) as error:
        clashes = str(error).splitlines()
    yield from _findings("configuration", clashes)


def check_host(machine: Machine) -> Iterator[DoctorCheck]:
    """Check kernel, cgroups, packages, programs, disk and ports of this host as a node."""
    if os.geteuid() != 0:
        yield DoctorCheck("host", "skipped", "kernel, cgroups, disk and ports are checked as root only")
        return
    found = list(local_obstacles(machine, running=bool(running(machine, "agent"))))
    yield from (DoctorCheck(each.check, "failed", each.text) for each in found)
    if not found:
        yield DoctorCheck("host", "ok", "kernel, cgroups, packages, programs, disk and ports")


def check_kvm() -> DoctorCheck:
    """Check for the accelerator of virtual machines."""
    if kvm_group() is not None:
        return DoctorCheck("kvm", "ok")
    why = f"{KVM} is not there, or its group may not open it"
    return DoctorCheck("kvm", "warning", f"{why}: virtual machines are emulated, and slower")


async def check_cluster(client: Client) -> AsyncIterator[DoctorCheck]:
    """Check server, clock and everything that `tarmac status` shows."""
    try:
        reply = await client.transport.request(
            ClientRequest("GET", "/version", "", {"accept": "*/*"}, b"", _SERVER_TIMEOUT)
        )
        status = await gather(client)
    except (ApiError, ClientError, OSError) as error:
        yield DoctorCheck("server", "failed", f"{error}; start it, or pass another --kubeconfig")
        return
    yield DoctorCheck("server", "ok")
    yield _clock(client.clock.now(), reply.headers.get("date", ""))
    for each in _findings("cluster", status.problems()):
        yield each
    for each in status.hidden:
        yield DoctorCheck("cluster", "skipped", each)


def _clock(now: float, date: str) -> DoctorCheck:
    try:
        ahead = now - parsedate_to_datetime(date).timestamp()
    except ValueError:
        return DoctorCheck("clock", "skipped", "the server sends no date")
    if abs(ahead) <= MAX_SKEW:
        return DoctorCheck("clock", "ok")
    way = "ahead of" if ahead > 0 else "behind"
    return DoctorCheck(
        "clock",
        "failed",
        f"this host's clock is {human_duration(abs(ahead))} {way} the server's; set it (timedatectl set-ntp true)",
    )


async def _check_server_host(options: argparse.Namespace) -> list[DoctorCheck]:
    """Check store, certificates, backup and versions where this host runs a server."""
    try:
        layout = layout_named(options)
        if not os.access(layout.kubeconfig, os.R_OK):
            return [DoctorCheck("upgrade", "skipped", f"no server with its data in {layout.data_dir}")]
        found = await upgrade_obstacles(layout, __version__, SystemClock())
    except (ApiError, BadConfigFile, ClientError, OSError, ValueError) as error:
        return [DoctorCheck("upgrade", "skipped", str(error))]
    return [_obstacle(each) for each in found] or [DoctorCheck("upgrade", "ok")]


def _obstacle(each: Obstacle) -> DoctorCheck:
    return DoctorCheck(each.check, "warning" if each.check in _MILD else "failed", each.text)


def _findings(check: str, problems: Iterable[str]) -> list[DoctorCheck]:
    return [DoctorCheck(check, "failed", each) for each in problems] or [DoctorCheck(check, "ok")]
