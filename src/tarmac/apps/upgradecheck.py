"""`tarmac upgrade check`: reports all obstacles to an upgrade at once and changes nothing.

It runs on a server's host with its administrator's rights. Versions are those announced by servers, nodes and the
leading controllers; disk, certificates and the newest backup are this server's. Removed fields are those unknown to
this program, so they are only checked if it is the target version: install it, check, and only then restart. Exit code
0 without obstacles, 3 with some, 1 if the server does not answer.
"""

from __future__ import annotations

import argparse
import asyncio
import shutil
from collections import defaultdict
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

from tarmac import __version__
from tarmac.api.catalog import build_catalog
from tarmac.api.decode import check_object
from tarmac.api.identities import NAMESPACE, PROCESS, VERSION
from tarmac.api.resource import Resource
from tarmac.api.schema import JsonObject
from tarmac.api.status import ApiError, NotFound
from tarmac.apps.backups.backup import NOTE
from tarmac.apps.backups.hoststores import layout_named
from tarmac.apps.formatupgrade import server_versions
from tarmac.apps.host.checks import Obstacle
from tarmac.apps.host.hostlayout import DONE, FAILED, OBSTACLES
from tarmac.apps.layout import Layout
from tarmac.base.clock import Clock, SystemClock, parse_rfc3339
from tarmac.base.duration import human_duration
from tarmac.base.log import configure
from tarmac.base.stderr import print_error
from tarmac.cli.configfile import BadConfigFile
from tarmac.client.client import Client
from tarmac.client.errors import ClientError
from tarmac.client.http import HttpTransport
from tarmac.client.kubeconfig import load
from tarmac.client.targets.target import Target
from tarmac.client.targets.untyped import CONFIG_MAPS, LEASES, NODES
from tarmac.decide.versions import against_upgrade, minor_of
from tarmac.server.security.certificates.issuing import load_certificate

MAX_BACKUP_AGE = 26 * 3600.0
MIN_CERTIFICATE_LIFETIME = 14 * 24 * 3600.0
_MIN_FREE = 1 << 30

_UNKNOWN = "unknown field "


def main(options: argparse.Namespace) -> int:
    """Print all obstacles; return the exit code."""
    configure(level="error", as_json=False)
    try:
        found = asyncio.run(upgrade_obstacles(layout_named(options), options.to, SystemClock()))
    except (ApiError, BadConfigFile, ClientError, OSError, ValueError) as error:
        print_error(error)
        return FAILED
    for obstacle in found:
        print_error(f"{obstacle.check}: {obstacle.text}")
    if not found:
        print(f"nothing stands against tarmac {options.to}: upgrade servers first, then agents")
    return OBSTACLES if found else DONE


async def upgrade_obstacles(layout: Layout, to: str, clock: Clock) -> list[Obstacle]:
    """Return all obstacles to an upgrade. Raises ApiError, ClientError, OSError."""
    client = Client(HttpTransport(load(str(layout.kubeconfig)).http), clock)
    try:
        versions = await _server_versions(client, layout), await _agent_versions(client), await _leaders_version(client)
        found = [Obstacle(*each) for each in against_upgrade(to, *versions)]
        going = await fields_that_go(client) if minor_of(to) == minor_of(__version__) else []
        return [*found, *going, *await _backup(client), *_disk(layout), *_certificates(layout, clock)]
    finally:
        await client.close()


async def _server_versions(client: Client, layout: Layout) -> dict[str, str]:
    """Return the servers' versions. A server that only this host reaches announces none; it is the one that answers."""
    version = str((await client.get_json("/version")).get("gitVersion", "")).partition("+tarmac-")[2]
    return await server_versions(client) or {f"the server of {layout.data_dir}": version}


async def _leaders_version(client: Client) -> dict[str, str]:
    """Return the version of the leading controllers. Without a Lease, they are those of the only server."""
    try:
        lease = await client.resource(LEASES).get(PROCESS, NAMESPACE)
    except NotFound:
        return {}
    holder = (lease.get("spec") or {}).get("holderIdentity")
    return {holder: (lease["metadata"].get("annotations") or {}).get(VERSION, "")} if holder else {}


async def _agent_versions(client: Client) -> dict[str, str]:
    return {
        node["metadata"]["name"]: (node["metadata"].get("annotations") or {}).get(VERSION, "")
        async for page in client.resource(NODES).pages()
        for node in page.items
    }


async def _backup(client: Client) -> list[Obstacle]:
    hint = "tarmac backup create FILE"
    try:
        note = await client.resource(CONFIG_MAPS).get(NOTE, NAMESPACE)
        age = client.clock.now() - parse_rfc3339((note.get("data") or {}).get("time", ""))
    except (NotFound, ValueError):
        return [Obstacle("backup", f"no backup is known of; {hint}")]
    if age > MAX_BACKUP_AGE:
        return [Obstacle("backup", f"the newest backup is {human_duration(age)} old; {hint}")]
    return []


def _disk(layout: Layout) -> Iterator[Obstacle]:
    """Report missing space: a start may rewrite the whole store."""
    store = layout.data_dir / "store.db"
    wanted = max(_MIN_FREE, 2 * store.stat().st_size if store.exists() else 0)
    free = shutil.disk_usage(layout.data_dir).free
    if free < wanted:
        yield Obstacle("disk", f"{free >> 20} MiB are free below {layout.data_dir}; {wanted >> 20} MiB are needed")


def _certificates(layout: Layout, clock: Clock) -> Iterator[Obstacle]:
    for path in (layout.pki / "ca.crt", layout.pki / "server.crt"):
        if path.exists() and (left := _left(path, clock)) < MIN_CERTIFICATE_LIFETIME:
            yield Obstacle("certificates", f"{path} ends in {human_duration(max(0.0, left))}; renew it first")


def _left(path: Path, clock: Clock) -> float:
    return load_certificate(path.read_bytes()).not_valid_after_utc.timestamp() - clock.now()


# Finds stored objects with fields unknown to this version: they are ignored, and the next write drops them.
#
# A server returns objects as stored, independent of the version that wrote them. So all objects are read from the
# running server and checked against the schemas of this program.


async def fields_that_go(client: Client) -> list[Obstacle]:
    """Return one obstacle per kind and field, with the first object that has it. Raises ApiError, ClientError."""
    found: dict[tuple[str, str], list[str]] = defaultdict(list)
    for resource in build_catalog():
        if resource.stored and resource.storage is None and "list" in resource.verbs:
            async for item in _stored(client, resource):
                for what in _strange(resource, item):
                    found[resource.plural, what].append(_name(item))
    return [_obstacle(plural, what, names) for (plural, what), names in found.items()]


async def _stored(client: Client, resource: Resource) -> AsyncIterator[JsonObject]:
    target = Target(resource.group, resource.version, resource.plural, resource.kind, resource.namespaced, JsonObject)
    try:
        async for page in client.resource(target).pages():
            for item in page.items:
                yield item
    except NotFound:  # the server is older than the kind
        return


def _strange(resource: Resource, item: JsonObject) -> list[str]:
    item |= {"apiVersion": resource.api_version, "kind": resource.kind}  # items of a list lack these
    try:
        return [text for text in check_object(resource, item, "Warn") if text.startswith(_UNKNOWN)]
    except ApiError as error:
        return [f"content that cannot be read: {error.message}"]


def _obstacle(plural: str, what: str, names: list[str]) -> Obstacle:
    which = names[0] if len(names) == 1 else f"{names[0]} and {len(names) - 1} more"
    return Obstacle("fields", f"{plural} {which}: {what}, which tarmac {__version__} does not have; remove it first")


def _name(item: JsonObject) -> str:
    metadata = item["metadata"]
    return "/".join(part for part in (metadata.get("namespace"), metadata["name"]) if part)
