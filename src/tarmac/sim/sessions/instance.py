"""A container of a simulated pod as a shell in it sees it: names, addresses, variables and files."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import PurePosixPath

from tarmac.agent.environment.variables import ConfigMissing, PodEnvironment, environment
from tarmac.agent.model.pod import AgentPod
from tarmac.agent.sources.apisources import ApiSources
from tarmac.api.networking.interfaces import decode_interfaces
from tarmac.api.networking.names import ANNOTATION_INTERFACES
from tarmac.api.schema import JsonObject
from tarmac.api.status import ApiError
from tarmac.client.client import Client
from tarmac.client.errors import ClientError
from tarmac.client.targets.untyped import SERVICES
from tarmac.sim.nodes.pod import SimulatedPod
from tarmac.sim.nodes.simulatednode import SimulatedNode
from tarmac.volumes.content.collect import Collector
from tarmac.volumes.content.files import ContentMissing, ContentUnsupported
from tarmac.volumes.interface import SourceUnavailable

RELEASE = "6.1.0-sim"
DOMAIN = "cluster.local"
MAX_FILE = 1024 * 1024  # of an object's key: the size of an object
_PROJECTED = ("configMap", "secret")
_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_FOLDERS = ("/bin", "/dev", "/etc", "/home", "/proc", "/root", "/tmp", "/usr", "/var")


@dataclass(frozen=True, slots=True)
class SimulatedContainer:
    """A running container. `files` has its whole file system by path; folders follow from them and from `folders`."""

    pod: JsonObject
    name: str
    node: str
    city: str
    variables: Mapping[str, str] = field(default_factory=dict[str, str])
    files: Mapping[str, bytes] = field(default_factory=dict[str, bytes])
    folders: frozenset[str] = frozenset()

    @property
    def namespace(self) -> str:
        """Namespace of its pod."""
        return self.pod["metadata"]["namespace"]

    @property
    def hostname(self) -> str:
        """Host name, as the agent sets it."""
        return self.pod["spec"].get("hostname") or self.pod["metadata"]["name"][:63].rstrip("-.")

    @property
    def searches(self) -> tuple[str, ...]:
        """Domains that are tried behind a name."""
        space = self.namespace
        return (f"{space}.svc.{DOMAIN}", f"{space}.inst.{DOMAIN}", f"svc.{DOMAIN}", DOMAIN)

    def listing(self, path: str) -> list[str] | None:
        """Return the names in a folder; None if there is no such folder."""
        prefix = path.rstrip("/") + "/"
        inside = [each for each in (*self.files, *self.folders) if each.startswith(prefix) and each != prefix]
        if not inside and path not in self.folders and path != "/":
            return None
        return sorted({each[len(prefix) :].partition("/")[0] for each in inside})


async def enter(
    client: Client, pod: JsonObject, name: str, place: tuple[SimulatedPod, SimulatedNode], commands: tuple[str, ...]
) -> SimulatedContainer:
    """Return a container with its variables and files, read from the API."""
    known, node = place
    container = next(each for each in pod["spec"]["containers"] if each["name"] == name)
    sources = ApiSources(client)
    entered = SimulatedContainer(pod, name, node.name, node.place.city)
    variables = {"PATH": _PATH, "HOSTNAME": entered.hostname, "HOME": "/root"}
    here = PodEnvironment(known.addresses, (node.address,), {}, await _services(client, entered.namespace))
    with suppress(ConfigMissing, SourceUnavailable):  # deleted after the start
        variables |= dict(await environment(AgentPod(pod), container, sources, here))
    files = {f"/bin/{each}": b"" for each in commands} | _system(entered, known)
    mounted: set[str] = set()
    volumes = {each["name"]: each for each in pod["spec"].get("volumes") or ()}
    for mount in container.get("volumeMounts") or ():
        mounted.add(mount["mountPath"].rstrip("/") or "/")
        files |= await _mounted(Collector(pod, sources, {}), volumes.get(mount["name"]) or {}, mount)
    parents = {str(each) for path in (*files, *mounted) for each in PurePosixPath(path).parents}
    return SimulatedContainer(
        pod, name, node.name, node.place.city, variables, files, frozenset({*_FOLDERS, *mounted, *parents} - {"/"})
    )


async def _services(client: Client, namespace: str) -> list[JsonObject]:
    """Return the Services that variables may name; none if they cannot be read."""
    services = client.resource(SERVICES)
    try:
        own = (await services.list(namespace)).items
        return list(own) if namespace == "default" else [*own, await services.get("kubernetes", "default")]
    except (ApiError, ClientError):
        return []


async def _mounted(collector: Collector, volume: JsonObject, mount: JsonObject) -> dict[str, bytes]:
    """Return the files of a ConfigMap or Secret below their mount; no others have content here."""
    found: dict[str, bytes] = {}
    kind = next((each for each in _PROJECTED if each in volume), None)
    if kind is None:
        return found
    with suppress(ContentMissing, ContentUnsupported, SourceUnavailable):
        for path, file in (await collector.files(kind, volume[kind])).items():
            wanted = mount.get("subPath")
            if not wanted:
                found[f"{mount['mountPath'].rstrip('/')}/{path}"] = file.data[:MAX_FILE]
            elif wanted == path:
                found[mount["mountPath"]] = file.data[:MAX_FILE]
    return found


def _system(container: SimulatedContainer, known: SimulatedPod) -> dict[str, bytes]:
    """Return the files that every container has."""
    hosts = ["127.0.0.1\tlocalhost", *(f"{address}\t{container.hostname}" for address in known.addresses)]
    files = {
        "/etc/hostname": container.hostname,
        "/etc/hosts": "\n".join(hosts),
        "/etc/os-release": 'NAME="Tarmac simulated instance"\nID=tarmac-sim',
        "/etc/resolv.conf": f"search {' '.join(container.searches)}\noptions ndots:5",
        "/proc/version": f"Linux version {RELEASE} (simulated)",
    }
    return {path: f"{content}\n".encode() for path, content in files.items()}


def interfaces_of(pod: JsonObject) -> list[tuple[str, str]]:
    """Return the pod's addresses with prefix length, each with its Network."""
    stated = (pod["metadata"].get("annotations") or {}).get(ANNOTATION_INTERFACES, "")
    if not stated:
        return []
    return [(address, each.network) for each in decode_interfaces(stated) for address in each.addresses]
