"""`tarmac leave`: removes the node from the cluster and all its remains from this host.

server → (etcd) → processes → node → containerd → files

The server comes first: it moves the pods elsewhere, revokes the node's certificates and deletes the node. Then
everything is removed from the inside out, found by inspection and not from stored state, so that after a kill the same
command continues. The configuration goes last: it names the things to look for.
"""

from __future__ import annotations

import argparse
import asyncio
import shutil
from contextlib import suppress
from pathlib import Path
from typing import Any

from tarmac.agent.config.agentconfig import settle
from tarmac.api.nodetokens import DELETE_DISKS, LEAVING
from tarmac.api.status import ApiError, NotFound, Unauthorized
from tarmac.apps.agent import read_config
from tarmac.apps.commands import parsed
from tarmac.apps.host.checks import Obstacle
from tarmac.apps.host.configuration import documents_in, drop_document
from tarmac.apps.host.etcdverbs import leave_etcd
from tarmac.apps.host.hostlayout import Machine, SetupFailed, print_progress, setting_up
from tarmac.apps.host.hostservices import stop_all
from tarmac.apps.host.identity import node_client
from tarmac.apps.host.joining import KIND, Blocked, run_step
from tarmac.apps.node.removing import remove_agent
from tarmac.base.clock import SystemClock, rfc3339
from tarmac.base.log import configure
from tarmac.cli.configfile import BadConfigFile
from tarmac.client.client import Client
from tarmac.client.errors import ClientError
from tarmac.client.targets.untyped import NODES
from tarmac.controllers.noderemoval import disk_names, disks_of
from tarmac.decide.allocatable.reservations import Reservations
from tarmac.runtimes import containerd
from tarmac.runtimes.containerd.orphans import unmount_below
from tarmac.runtimes.parts import PartMissing, find_parts

SERVER = "ServerConfig"
_REMOVAL_GRACE = 120.0  # after the deadline: time for a server to force pods to end and delete the node
_OF_NODES = ("agent", "containerd", "certs.d", "parts", "agent.log", "containerd.log")
_OF_SERVERS = (
    "pki",
    "etcd",
    "join.key",
    "secrets.key",
    "kubeconfig",
    "controllers.kubeconfig",
    "server.log",
    "etcd.log",
    ".lock",
)
_PATTERNS = ("store.db*", "audit*.log*")


def main(options: argparse.Namespace) -> int:
    """Leave; return the exit code."""
    configure(level="warning")
    return asyncio.run(run_step(lambda: _locked(Machine(), options)))


async def _locked(machine: Machine, options: argparse.Namespace) -> None:
    with setting_up(machine):
        await leave(machine, options)


async def leave(machine: Machine, options: argparse.Namespace) -> None:
    """Perform all remaining steps. Raises SetupFailed, Blocked."""
    documents = _documents(machine)
    is_node = KIND in documents or machine.agent.exists() or (machine.data / "containerd").exists()
    # Its first file is written before its configuration: one killed while joining is a server as well.
    files = [path for name in _OF_SERVERS for path in _written(machine.data / name)]
    is_server = SERVER in documents or any(path.exists() for path in files)
    name = documents.get(KIND, {}).get("nodeName", "")
    if is_node and not options.force and machine.kubeconfig.exists():
        print_progress("server")
        await _depart(machine, name, options)
    with_server = is_server and options.delete_data
    if with_server and not options.force:
        await leave_etcd(machine, SystemClock())
    await _remove(machine, with_server=with_server)
    if is_node and options.force and name:
        print_progress(f"the server was not asked; where it runs: tarmac node remove {name}")
    if is_server and not with_server:
        print_progress(
            "this machine is still a server; tarmac leave --delete-data removes it with everything it has stored"
        )
    print("left" if is_node or with_server else "this machine is no node: there is nothing to leave", flush=True)


def _documents(machine: Machine) -> dict[str, dict[str, Any]]:
    try:
        return documents_in(machine.config)
    except BadConfigFile:
        return {}


# Steps at the server


async def _depart(machine: Machine, name: str, options: argparse.Namespace) -> None:
    """Ask the server to remove the node, and wait for it. Raises SetupFailed, Blocked."""
    client = node_client(machine)
    try:
        disks = disk_names(await disks_of(client, name))
        if disks and not options.delete_disks:
            why = f"{len(disks)} disks are here and would be lost ({', '.join(disks)}); --delete-disks if they may go"
            raise Blocked([Obstacle("disks", why)])
        await _announce(client, name, options)
        await _until_forgotten(client, name, options.drain_timeout + _REMOVAL_GRACE)
    except (Unauthorized, NotFound):
        return  # removed, now or by an earlier attempt
    except (ApiError, ClientError) as error:
        hint = "try again, or --force, and tell the server where it runs"
        raise SetupFailed(f"the server did not let the node go: {error}; {hint}") from error
    finally:
        await client.close()


async def _announce(client: Client, name: str, options: argparse.Namespace) -> None:
    """Set the deadline, or keep that of an earlier attempt: a repetition gives pods no more time."""
    node = await client.resource(NODES).get(name)
    known = node["metadata"].get("annotations") or {}
    wanted = {LEAVING: known.get(LEAVING) or rfc3339(client.clock.now() + options.drain_timeout)}
    if options.delete_disks:
        wanted[DELETE_DISKS] = "true"
    await client.resource(NODES).patch(name, {"metadata": {"annotations": wanted}})


async def _until_forgotten(client: Client, name: str, seconds: float) -> None:
    deadline = client.clock.monotonic() + seconds
    while client.clock.monotonic() < deadline:
        with suppress(ClientError):  # the connection ends with the certificate; the next response counts
            await client.resource(NODES).get(name)
        await client.clock.sleep(0.25)
    raise SetupFailed(f"{name} still has pods after {seconds:.0f} s; try again, or --force")


# Steps on the host


async def _remove(machine: Machine, *, with_server: bool) -> None:
    print_progress("processes")
    await stop_all(machine, server=with_server)
    print_progress("node")
    left = await remove_agent(settle(read_config(_agent_options(machine)), Reservations()), runtime_follows=True)
    print_progress("containerd")
    await _remove_containerd(machine)
    print_progress("files")
    await asyncio.to_thread(_remove_files, machine, with_server=with_server)
    if left:
        raise SetupFailed("\n".join(f"still there: {each}" for each in left))


def _agent_options(machine: Machine) -> argparse.Namespace:
    """Return the options of the configuration; without one, those that `join` would use."""
    if KIND in _documents(machine):
        return parsed(["agent", "--remove", f"--config={machine.config}"])
    endpoint = f"unix://{machine.run / 'containerd' / 'c.sock'}"
    folders = {"root-dir": machine.agent, "run-dir": machine.run / "agent"}
    folders |= {"cni-bin-dir": machine.run / "cni", "cni-conf-dir": machine.run / "cni.d"}
    flags = [f"--{name}={value}" for name, value in folders.items()]
    return parsed(["agent", "--remove", f"--container-runtime-endpoint={endpoint}", *flags])


async def _remove_containerd(machine: Machine) -> None:
    with suppress(PartMissing):  # without parts there never was one
        await containerd.stop(machine.containerd(find_parts()), remove=True)


def _remove_files(machine: Machine, *, with_server: bool) -> None:
    # Only in directories of Tarmac: a parent may be a mount point of the operator.
    for top in (machine.run, machine.data):
        for name in ("agent", "containerd", "cni", "cni.d"):
            unmount_below(top / name)
    names = [*_OF_NODES, *(_OF_SERVERS if with_server else ())]
    paths = [path for name in names for path in _written(machine.data / name)]
    if with_server:
        paths += [path for pattern in _PATTERNS for path in machine.data.glob(pattern)]
    for path in paths:
        _take_away(path)
    for name in ("agent", "containerd", "cni", "cni.d"):
        _take_away(machine.run / name)
    # Last, since they tell a repeated command where to look: the documents, and the lock held by this process.
    drop_document(machine.config, KIND)
    if with_server:
        drop_document(machine.config, SERVER)
    for path in _written(machine.config)[1:]:
        _take_away(path)
    if not (machine.data / "pki").exists():
        machine.lock.unlink(missing_ok=True)
    for folder in (machine.config.parent, machine.data, machine.run):
        with suppress(OSError):
            folder.rmdir()  # fails if it has other content


def _written(path: Path) -> list[Path]:
    """Return a file, and temporary files of a killed write: `write_private` creates them next to it."""
    return [path, *path.parent.glob(f".{path.name}.*")]


def _take_away(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)
