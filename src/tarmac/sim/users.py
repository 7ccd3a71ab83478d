"""A simulated user of the platform: creates and changes workloads, makes mistakes, and corrects them at the end.

`wishes` holds the currently wanted workloads; at the end the cluster must match it.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Sequence
from contextlib import suppress
from dataclasses import dataclass
from math import ceil
from typing import Any

from tarmac.api.compute.machineimage import image_object_name
from tarmac.api.compute.names import API_VERSION as COMPUTE
from tarmac.api.kubernetes.core.pods.podclasses import BLOCKIO, default_annotation
from tarmac.api.schema import JsonObject
from tarmac.api.status import AlreadyExists, ApiError, Conflict, NotFound
from tarmac.base.clock import Clock
from tarmac.base.randomness import Randomness
from tarmac.client.client import Client
from tarmac.client.resourceclient import Propagation
from tarmac.client.targets.typed import MACHINE_IMAGES
from tarmac.client.targets.untyped import DEPLOYMENTS, INSTANCES, PODS, RESOURCE_QUOTAS, WORKLOADS
from tarmac.sim.nodes.draws import PLENTY, RARE, SCARCE
from tarmac.sim.nodes.settings import CRASH_AFTER, PANIC_AFTER

NAMESPACE = "default"
PER_INSTANCE = 10.0  # target requests per second of one instance
_MAX_WORKLOADS = 3  # maximum number of workloads at once
_MACHINE_INTERVAL = 3  # one of this many workloads has virtual machines
_IMAGE: JsonObject = {"size": "10Gi", "format": "raw"}
_REQUESTS: JsonObject = {
    "external": {
        "metric": {"name": "requests", "selector": {"matchLabels": {"city": "{{ context.locality.cityCode }}"}}},
        "target": {"type": "AverageValue", "averageValue": str(int(PER_INSTANCE))},
    }
}
_WAYS: tuple[Propagation, ...] = ("Background", "Background", "Foreground", "Orphan")
_LIMITED = ("pods", "count/instances.compute.datumapis.com", "requests.cpu", BLOCKIO)
_CLASSES = ("", SCARCE, SCARCE, PLENTY, RARE)
SHARED = "500m"
_SIZES = (SHARED, "1", "1", "2")  # with whole numbers a container has exclusive CPUs


@dataclass
class Wish:
    """One workload as the user wants it."""

    name: str
    cities: list[str]
    refuges: list[str]  # cities to move to when a city is lost
    replicas: int
    policy: str
    rollout: JsonObject
    version: int = 1
    broken: str = ""  # the defect of the newest version
    paused: bool = False
    most: int = 0  # if not 0, the load decides between `replicas` and this
    moves: bool = False  # while a city is lost, its instances run elsewhere
    disk: bool = False
    cpu: str = "1"
    blockio: str = ""  # the class of its containers
    machine: bool = False

    @property
    def image(self) -> str:
        """Image of its only container, or of its machine's boot disk."""
        if self.machine:
            return f"sim/os-{self.version}" + ("-lost" if self.broken == "image" else "")
        host = "registry.example.invalid" if self.broken == "image" else "docker.io/example"
        return f"{host}/app:{self.version}"

    def expected(self, load: float) -> int:
        """Return the number of instances in a city with this load."""
        return min(self.most, max(self.replicas, ceil(load / PER_INSTANCE))) if self.most else self.replicas

    def manifest(self) -> JsonObject:
        """Return the Workload's manifest."""
        annotations = {PANIC_AFTER if self.machine else CRASH_AFTER: "3s"} if self.broken == "crash" else {}
        if self.blockio:
            annotations[default_annotation(BLOCKIO)] = self.blockio
        template: JsonObject = {
            "metadata": {"labels": {"app": self.name}, "annotations": annotations},
            "spec": {
                "runtime": {
                    "resources": {
                        "instanceType": "datumcloud/d1-custom",
                        "requests": {"cpu": self.cpu, "memory": "1Gi"},
                    },
                    "sandbox": {"containers": [{"name": "main", "image": self.image}]},
                },
                "networkInterfaces": [{"network": {"name": "default"}}],
            },
        }
        if self.machine:
            _make_machine(template["spec"], self.image)
        if self.disk:
            _add_disk(template["spec"])
        placement: JsonObject = {"name": "all", "cityCodes": list(self.cities)}
        if self.moves:
            placement["onCityLoss"] = {"policy": "Move", "cities": self.refuges, "after": "90s"}
        scale: JsonObject = {"minReplicas": self.replicas, "instanceManagementPolicy": self.policy}
        if self.most:
            scale |= {"maxReplicas": self.most, "metrics": [_REQUESTS]}
        return {
            "apiVersion": COMPUTE,
            "kind": "Workload",
            "metadata": {"name": self.name, "namespace": NAMESPACE},
            "spec": {
                "template": template,
                "placements": [placement | {"scaleSettings": scale}],
                "rollout": self.rollout,
                "paused": self.paused,
            },
        }


def _add_disk(spec: JsonObject) -> None:
    disk = {"resources": {"requests": {"storage": "10Gi"}}, "populator": {"filesystem": {"type": "ext4"}}}
    spec.setdefault("volumes", []).append({"name": "data", "disk": {"template": {"spec": disk}}})
    runtime = spec["runtime"]
    for user in (runtime.get("virtualMachine"), *runtime.get("sandbox", {}).get("containers", ())):
        if user is not None:
            user.setdefault("volumeAttachments", []).append({"name": "data", "mountPath": "/data"})


def _make_machine(spec: JsonObject, image: str) -> None:
    del spec["runtime"]["sandbox"]
    spec["runtime"]["virtualMachine"] = {"volumeAttachments": [{"name": "boot"}]}
    spec["volumes"] = [{"name": "boot", "disk": {"template": {"spec": {"populator": {"image": {"name": image}}}}}}]


def _machine_image(wish: Wish) -> JsonObject:
    """Return the MachineImage that a wish names; a broken one has no source."""
    source = {} if wish.broken == "image" else {"source": {"file": "os.img"}, "checksum": f"sha256:{0:064}"}
    metadata = {"name": image_object_name(wish.image)}
    return {"apiVersion": COMPUTE, "kind": "MachineImage", "metadata": metadata, "spec": {**_IMAGE, **source}}


class Somebody:
    """The user. `run` until cancelled, then `settle`."""

    def __init__(
        self,
        client: Client,
        clock: Clock,
        dice: Randomness,
        cities: Sequence[str],
        load: dict[str, float],
        *,
        pace: float = 18.0,
        on_event: Callable[[str], None] = lambda _what: None,
    ) -> None:
        self.wishes: dict[str, Wish] = {}
        self.refused: list[str] = []  # requests that the server should have accepted
        self._workloads = client.resource(WORKLOADS)
        self._images = client.resource(MACHINE_IMAGES.unread)
        self._quotas = client.resource(RESOURCE_QUOTAS)
        self._children = [client.resource(target) for target in (PODS, INSTANCES, DEPLOYMENTS)]
        self._clock = clock
        self._dice = dice
        self._cities = cities
        self._load = load  # by Location, named after its city in lower case
        self._pace = pace
        self._on_event = on_event
        self._made = 0
        self._acts: list[Callable[[], Coroutine[Any, Any, str]]] = [
            self._create, self._create, self._scale, self._scale, self._release, self._release, self._release,
            self._delete, self._limit, self._limit, self._pause, self._change_cities, self._delete_child, self._visit,
            self._visit, self._resize, self._reclass,
        ]  # fmt: skip

    async def run(self) -> None:
        """Act at random intervals."""
        while True:
            await self._act(self._dice.choice(self._acts))
            await self._clock.sleep(self._dice.uniform(0.1, 2 * self._pace))

    async def settle(self) -> None:
        """Correct every mistake, so that all wishes can be fulfilled."""
        await self._quota(None)
        if not self.wishes:
            await self._act(self._create)
        for wish in self.wishes.values():
            if wish.broken or await self._has_failed(wish):
                wish.version += 1
            wish.broken, wish.paused = "", False
            wish.blockio, wish.cpu = PLENTY if wish.blockio else "", SHARED
            await self._apply(wish)

    async def _has_failed(self, wish: Wish) -> bool:
        """Return True if its rollout was stopped, maybe because nodes were dead too long: it needs a new version."""
        try:
            status = (await self._workloads.get(wish.name, NAMESPACE)).get("status") or {}
        except NotFound:
            return False
        return bool((status.get("rollout") or {}).get("failure"))

    async def _act(self, act: Callable[[], Coroutine[Any, Any, str]]) -> None:
        try:
            what = await act()
        except (NotFound, Conflict):
            return  # the object has changed or gone meanwhile
        except ApiError as error:
            self.refused.append(f"{act.__name__}: {error}")
            return
        if what:
            self._on_event(what)

    async def _apply(self, wish: Wish) -> None:
        if wish.machine:
            with suppress(AlreadyExists):
                await self._images.create(_machine_image(wish))
        await self._workloads.apply(wish.manifest(), manager="somebody")

    def _any(self) -> Wish | None:
        return self._dice.choice(list(self.wishes.values())) if self.wishes else None

    def _number(self, least: int, most: int) -> int:
        return int(self._dice.uniform(least, most + 1))

    async def _create(self) -> str:
        if len(self.wishes) >= _MAX_WORKLOADS:
            return ""
        self._made += 1
        wish = Wish(
            f"app{self._made}",
            self._some_cities(),
            list(self._cities),
            self._number(1, 4),
            self._dice.choice(("OrderedReady", "Parallel")),
            self._dice.choice(({}, {"maxUnavailable": 2}, {"maxSurge": 1}, {"maxSurge": "50%", "maxUnavailable": 0})),
            most=self._dice.choice((0, 0, 5)),
            moves=self._dice.uniform(0, 1) < 0.3,
            disk=self._dice.uniform(0, 1) < 0.3,
            cpu=self._dice.choice(_SIZES),
            blockio=self._dice.choice(_CLASSES),
            machine=self._made % _MACHINE_INTERVAL == 0,
        )
        self.wishes[wish.name] = wish
        await self._apply(wish)
        sort = "machines" if wish.machine else "sandboxes"
        return f"makes {wish.name}: {wish.replicas} {sort} in each of {', '.join(wish.cities)}, {wish.policy}"

    def _some_cities(self) -> list[str]:
        left = list(self._cities)
        chosen = [left.pop(self._number(0, len(left) - 1)) for _ in range(self._number(1, len(left)))]
        return sorted(chosen)

    async def _scale(self) -> str:
        wish = self._any()
        if wish is None:
            return ""
        wish.replicas = self._number(1, 5)
        await self._apply(wish)
        return f"wants {wish.replicas} of {wish.name}"

    async def _release(self) -> str:
        wish = self._any()
        if wish is None:
            return ""
        wish.version += 1
        wish.broken = self._dice.choice(("", "", "", "image", "crash"))
        await self._apply(wish)
        return f"releases version {wish.version} of {wish.name}" + (f", broken ({wish.broken})" if wish.broken else "")

    async def _resize(self) -> str:
        wish = self._any()
        if wish is None:
            return ""
        wish.cpu = self._dice.choice(_SIZES)
        await self._apply(wish)
        return f"wants {wish.cpu} CPUs for each of {wish.name}"

    async def _reclass(self) -> str:
        wish = self._any()
        if wish is None:
            return ""
        wish.blockio = self._dice.choice(_CLASSES)
        await self._apply(wish)
        return f"wants {wish.name} in {f'class blockio/{wish.blockio}' if wish.blockio else 'no class'}"

    async def _delete(self) -> str:
        wish = self._any()
        if wish is None or self._dice.uniform(0, 1) < 0.5:
            return ""
        del self.wishes[wish.name]
        way = self._dice.choice(_WAYS)
        await self._workloads.delete(wish.name, NAMESPACE, propagation=way)
        return f"deletes {wish.name} ({way})"

    async def _limit(self) -> str:
        if self._dice.uniform(0, 1) < 0.4:
            await self._quota(None)
            return "lifts the quota"
        limited, most = self._dice.choice(_LIMITED), self._number(1, 9)
        spec: JsonObject = {"hard": {limited: str(most)}}
        if limited == BLOCKIO:
            classes: list[JsonObject] = [{"name": SCARCE, "capacity": most}, {"name": PLENTY}]
            spec = {"containerClassResources": [{"name": BLOCKIO, "classes": classes}]}
        await self._quota(spec)
        return f"sets a quota: {spec}"

    async def _quota(self, spec: JsonObject | None) -> None:
        with suppress(NotFound):
            await self._quotas.delete("limit", NAMESPACE)
        if spec is not None:
            metadata = {"name": "limit", "namespace": NAMESPACE}
            await self._quotas.create({"apiVersion": "v1", "kind": "ResourceQuota", "metadata": metadata, "spec": spec})

    async def _pause(self) -> str:
        wish = self._any()
        if wish is None:
            return ""
        wish.paused = not wish.paused
        await self._apply(wish)
        return f"{'pauses' if wish.paused else 'resumes'} {wish.name}"

    async def _change_cities(self) -> str:
        wish = self._any()
        if wish is None:
            return ""
        wish.cities = self._some_cities()
        await self._apply(wish)
        return f"wants {wish.name} in {', '.join(wish.cities)}"

    async def _visit(self) -> str:
        city = self._dice.choice(self._cities)
        self._load[city.lower()] = PER_INSTANCE * self._number(0, 6)
        return f"sends {self._load[city.lower()]:g} requests per second to {city}"

    async def _delete_child(self) -> str:
        """Delete a child of a Workload directly, with any propagation policy."""
        resource, way = self._dice.choice(self._children), self._dice.choice(_WAYS)
        found = (await resource.list(NAMESPACE)).items
        if not found:
            return ""
        name = self._dice.choice(found)["metadata"]["name"]
        await resource.delete(name, NAMESPACE, propagation=way)
        return f"deletes {resource.target.kind} {name} ({way})"
