"""`tarmac status`: the state of the cluster, read through the public API with the user's rights.

Each part is read separately. A part that is forbidden, or missing on a different API server, is left out with a note;
that does not make the cluster unhealthy.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Sequence
from typing import Final

import msgspec

from tarmac.api.backups import BACKUPS_MAP, made_at
from tarmac.api.identities import NAMESPACE, PROCESS, VERSION
from tarmac.api.networking.names import TOPOLOGY_CITY_CODE
from tarmac.api.networking.tunnels import (
    ANNOTATION_TUNNEL,
    closed_tunnels,
    closed_ways,
    read_tunnel,
    reports_open,
)
from tarmac.api.schema import JsonObject
from tarmac.api.status import ApiError, Forbidden, NotFound
from tarmac.base.clock import parse_rfc3339
from tarmac.cli.rendering.clusterstatus import (
    CityStatus,
    ClusterStatus,
    Member,
    Tunnels,
    status_document,
    status_screen,
)
from tarmac.cli.verbs.call import VerbCall
from tarmac.cli.verbs.console import Console
from tarmac.client.client import Client
from tarmac.client.targets.untyped import CONFIG_MAPS, LEASES, LOCATIONS, NODES
from tarmac.client.transport import ClientRequest, Reply
from tarmac.decide.stockcontrollers import LEASE, leads

_NOT_FINE: Final = 1
_MAX_CLOCK_SKEW: Final = 60.0
_SERVER_LEASES: Final = "apiserver.kubernetes.io/identity=tarmac-server"
_CHECK = re.compile(r"\[([+-])\](\S+) ")
_FIGURE = re.compile(r'^(tarmac_\w+)(?:\{name="([^"\\]*)"\})? (-?[0-9.]+(?:e[+-]?[0-9]+)?)$', re.MULTILINE)


async def run(call: VerbCall) -> int:
    """Run the verb with the flags of the command line; return the exit code."""
    return await status(call.client, call.console, call.options.output)


async def status(client: Client, console: Console, output: str) -> int:
    """Print the status; the exit code is 0 if every visible part is healthy."""
    found = await gather(client)
    if output == "json":
        console.show_json(status_document(found))
    else:
        console.say(status_screen(found))
    return _NOT_FINE if found.problems() else 0


async def gather(client: Client) -> ClusterStatus:
    """Collect the status of the cluster. Raises ClientError when no server responds."""
    return await _Gathering(client).all()


class _Gathering:
    """Collects a status, part by part."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._found = ClusterStatus()

    async def all(self) -> ClusterStatus:
        """Collect all parts. Raises ClientError when no server responds."""
        parts: dict[str, Callable[[], Awaitable[None]]] = {
            "get /readyz": self._readiness,
            "get /metrics": self._figures,
            "list leases in kube-system": self._servers,
            "get the lease tarmac-controllers in kube-system": self._leader,
            "list locations": self._cities,
            "list nodes": self._nodes,
            f"get the configmap {BACKUPS_MAP} in kube-system": self._backup,
        }
        for what, gather in parts.items():
            try:
                await gather()
            except Forbidden:
                self._found.hidden.append(f"may not {what}")
            except ApiError as error:
                self._found.hidden.append(f"could not {what}: {error.message}")
        return self._found

    async def _get(self, path: str, query: str = "") -> Reply:
        reply = await self._client.transport.request(ClientRequest("GET", path, query))
        if reply.status in (401, 403):
            raise Forbidden(f"{path} is refused", details={})
        return reply

    async def _readiness(self) -> None:
        reply = await self._get("/readyz", "verbose")
        checks = {name: sign == "+" for sign, name in _CHECK.findall(reply.body.decode(errors="replace"))}
        self._found.store = {name: passes for name, passes in checks.items() if name.startswith("store")}
        if reply.status != 200 and all(self._found.store.values()):
            self._found.store["readyz"] = False  # a check other than the store's fails

    async def _figures(self) -> None:
        reply = await self._get("/metrics")
        figures = _FIGURE.findall(reply.body.decode(errors="replace"))
        ends = {name: float(value) for family, name, value in figures if family == "tarmac_certificate_expiry_seconds"}
        self._found.certificates = ends
        responds = "tarmac_etcd_member_responds"
        self._found.etcd = {name: value == "1" for family, name, value in figures if family == responds}
        plain = {family: value for family, name, value in figures if not name}
        if "tarmac_leader" in plain:  # a single server has no Lease
            self._found.leader = "the server" if plain["tarmac_leader"] == "1" else ""
        self._found.conflicts = round(float(plain.get("tarmac_restored_conflicts", "0")))

    async def _servers(self) -> None:
        page = await self._client.resource(LEASES).list(NAMESPACE, labels=_SERVER_LEASES)
        listed = [Member((each.get("spec") or {}).get("holderIdentity") or "?", _version(each)) for each in page.items]
        # A server that listens on loopback only is announced nowhere, but it responds.
        self._found.servers = listed or [Member("the one that answers", await self._own_version())]

    async def _own_version(self) -> str:
        version = msgspec.json.decode((await self._get("/version")).body, type=dict[str, object])
        return str(version.get("gitVersion", "")).partition("+tarmac-")[2]

    async def _leader(self) -> None:
        await self._kubernetes_controllers()
        try:
            lease = await self._client.resource(LEASES).get(PROCESS, NAMESPACE)
        except NotFound:  # SQLite: the server itself leads
            return
        spec = lease.get("spec") or {}
        leads = bool(spec.get("holderIdentity")) and self._is_fresh(spec)
        self._found.leader = spec["holderIdentity"] if leads else ""

    async def _kubernetes_controllers(self) -> None:
        try:
            lease = await self._client.resource(LEASES).get(LEASE.rpartition("/")[2], NAMESPACE)
        except NotFound:  # they have never run here, and need not
            return
        holder = (lease.get("spec") or {}).get("holderIdentity") or ""
        self._found.kubernetes_controllers = holder if leads(lease, self._client.clock.now()) else ""

    def _is_fresh(self, spec: JsonObject) -> bool:
        """True unless the Lease is much too old: clocks differ."""
        try:
            renewed = parse_rfc3339(spec.get("renewTime") or "")
        except ValueError:
            return False
        return self._client.clock.now() - renewed < (spec.get("leaseDurationSeconds") or 0) + _MAX_CLOCK_SKEW

    async def _cities(self) -> None:
        self._found.cities = [
            _city(each) async for page in self._client.resource(LOCATIONS).pages() for each in page.items
        ]

    async def _nodes(self) -> None:
        nodes = [each async for page in self._client.resource(NODES).pages() for each in page.items]
        self._found.nodes = [Member(each["metadata"]["name"], _version(each), _trouble_of_node(each)) for each in nodes]
        self._found.tunnels = _tunnels(nodes)

    async def _backup(self) -> None:
        try:
            record = await self._client.resource(CONFIG_MAPS).get(BACKUPS_MAP, NAMESPACE)
        except NotFound:
            self._found.has_backup = False
            return
        made = made_at(record.get("data") or {})
        self._found.has_backup = made is not None
        self._found.backup = None if made is None else max(0.0, self._client.clock.now() - made)


def _version(obj: JsonObject) -> str:
    return (obj["metadata"].get("annotations") or {}).get(VERSION, "")


def _ready(obj: JsonObject) -> JsonObject:
    conditions = (obj.get("status") or {}).get("conditions") or ()
    return next((each for each in conditions if each.get("type") == "Ready"), {})


def _trouble_of_node(node: JsonObject) -> str:
    ready = _ready(node)
    return "" if ready.get("status") == "True" else ready.get("reason") or "not ready"


def _tunnels(nodes: Sequence[JsonObject]) -> Tunnels:
    """Those between nodes that are ready: of a node that is lost, its own line tells."""
    ready = {each["metadata"]["name"]: each for each in nodes if not _trouble_of_node(each)}
    closed = {
        way
        for node in ready.values()
        for each in closed_tunnels(node)
        if each.peer in ready
        for way in closed_ways(node, ready[each.peer])
    }
    probed = any(reports_open(node) or closed_tunnels(node) for node in ready.values())
    named = [f"{each.sender} to {each.receiver}, {each.port}/udp" for each in sorted(closed)]
    return Tunnels(named, probed, [name for name in sorted(ready) if _encrypts_in_userspace(ready[name])])


def _encrypts_in_userspace(node: JsonObject) -> bool:
    text = (node["metadata"].get("annotations") or {}).get(ANNOTATION_TUNNEL, "")
    return read_tunnel(text).encryption == "userspace"


def _city(location: JsonObject) -> CityStatus:
    status, ready = location.get("status") or {}, _ready(location)
    # A location without any nodes yet has not lost them.
    lost = bool(status.get("nodes")) and ready.get("status") not in ("True", None)
    code = (location["spec"].get("topology") or {}).get(TOPOLOGY_CITY_CODE, "")
    trouble = (ready.get("reason") or "not ready") if lost else ""
    return CityStatus(location["metadata"]["name"], code, status.get("readyNodes", 0), status.get("nodes", 0), trouble)
