"""Runs real cities beside a control plane: hosts, containerds and agents, started together and reported when ready.

Leaving the block stops only the agents: containerds and their pods stay, and the next start adopts them.
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import AsyncGenerator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Final

import msgspec

from tarmac.api.compute.machineimage import MachineImage
from tarmac.api.compute.names import API_VERSION, LABEL_ACCELERATOR
from tarmac.api.conditions import condition_of
from tarmac.api.egress.names import LABEL_GATEWAY
from tarmac.api.networking.cities import location_of, node_labels
from tarmac.api.schema import JsonObject
from tarmac.api.status import ApiError, NotFound
from tarmac.apps.cities import agents
from tarmac.apps.cities.cgroups import Confinement
from tarmac.apps.cities.layout import CityLayout, oversubscription
from tarmac.apps.cities.loopbackproxies import relays
from tarmac.apps.control_plane import STARTING, Running, local_transport
from tarmac.apps.layout import Layout
from tarmac.apps.processes import end, last_words
from tarmac.base.log import log
from tarmac.base.tasks import background, supervise
from tarmac.client.client import Client
from tarmac.client.errors import ClientError
from tarmac.client.targets.target import dynamic
from tarmac.client.targets.untyped import LOCATIONS, NODES
from tarmac.runtimes import containerd
from tarmac.runtimes.containerd.orphans import end_orphans
from tarmac.runtimes.parts import NodeParts, parts_folder
from tarmac.server.security.certificates.pki import Pki, write_kubeconfig

_FIELD_MANAGER = "tarmac-up"
_READY_TIMEOUT = 90.0
_ORPHAN_DELAY = 10.0  # seconds for containers that a killed containerd was starting to come up
_log = log("cities")

_TIMEOUT: Final = 120.0
_POLL_INTERVAL: Final = 1.0
_MESSAGES: Final = {
    "kvm": "virtual machines run with the processor's support (KVM)",
    "tcg": "virtual machines are emulated, and slow: there is no KVM here that works",
}

_IMAGES = dynamic(API_VERSION, "machineimages", MachineImage.__name__, namespaced=False)
_decode = msgspec.json.Decoder(dict).decode


@asynccontextmanager
async def real(
    cities: Sequence[CityLayout],
    parts: NodeParts,
    layout: Layout,
    server: str,
    agent_arguments: Sequence[str],
    running: Running,
    *,
    gateways: bool = False,
) -> AsyncGenerator[None]:
    """The nodes are Ready when the block starts, or a reason was printed. `server` is its address in the cities.

    `gateways`: every node may own addresses of external services.
    """
    client = Client(local_transport(running.server, STARTING))
    pki, url = Pki(layout.pki, client.clock), f"https://{server}:{running.listener.port}"
    promised = oversubscription()
    if promised:
        print(f"CPU is oversubscribed: each city offers {promised} more CPUs than this host has", file=sys.stderr)
    confined = Confinement()
    await set_image_sources(client)
    async with AsyncExitStack() as stack:
        for city in cities:
            confined.prepare(city)
            city.data.mkdir(mode=0o700, parents=True, exist_ok=True)
            write_kubeconfig(city.kubeconfig, url, pki.ca_file.read_bytes(), pki.node(city.node), city.node)
            await client.resource(LOCATIONS).apply(location_of(city.name, city.code, "nodes"), manager=_FIELD_MANAGER)
            await client.resource(NODES).apply(_node(city, gateways), manager=_FIELD_MANAGER)
            await stack.enter_async_context(relays(city, city.containerd(parts).certs, client.clock))
        # An agent left by a killed `up` must not run beside its successor: both would manage the same pods.
        await end(agents.agents_of(layout.data_dir))
        begun = {city.name: asyncio.Event() for city in cities}
        for city in cities:
            keep = partial(_keep_containerd, city, parts, confined, begun[city.name])
            what = f"containerd of {city.name}"
            await stack.enter_async_context(background(supervise(what, keep, client.clock), what))
        await asyncio.gather(*(each.wait() for each in begun.values()))
        for city in cities:
            # Of one host's GPUs each may be offered by one node only: they belong to the first city.
            gpus = [] if city is cities[0] else ["--nvidia=off"]
            own = [*gpus, *agent_arguments]
            arguments = [*confined.agent(city), *agents.command(city, parts, promised, own)]
            await stack.enter_async_context(background(agents.keep_running(city, arguments), f"agent of {city.name}"))
        await asyncio.gather(*(_reported(client, city) for city in cities))
        async with background(print_accelerator(client, cities[0].node), "how machines run"):
            yield


def _node(city: CityLayout, gateway: bool) -> JsonObject:
    """Return the Node with labels it may not set itself: its location, and the gateway role."""
    labels = {**node_labels(city.name, city.code), **({LABEL_GATEWAY: "true"} if gateway else {})}
    return {"apiVersion": NODES.api_version, "kind": NODES.kind, "metadata": {"name": city.node, "labels": labels}}


async def _keep_containerd(city: CityLayout, parts: NodeParts, confined: Confinement, begun: asyncio.Event) -> None:
    """Keep containerd running: a restarted one adopts its containers.

    `begun` is set when it runs, or when the first attempt failed, so that the caller does not wait for a retry.
    """
    settings = replace(city.containerd(parts), wrapper=confined.runtime(city))
    while True:
        try:
            await containerd.start(settings)
            confined.adopt_runtime(city, containerd.own_processes(settings))
        finally:
            begun.set()
        for pid in containerd.processes(settings):
            try:
                await asyncio.wait_for(_end_of(pid), _ORPHAN_DELAY)
            except TimeoutError:
                await asyncio.to_thread(end_orphans, settings.run)
                await _end_of(pid)
        _log.warning("containerd ended, restarting", city=city.name)


async def _end_of(pid: int) -> None:
    """Wait for a process that is not a child of this one."""
    try:
        handle = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    loop, over = asyncio.get_running_loop(), asyncio.Event()
    loop.add_reader(handle, over.set)
    try:
        await over.wait()
    finally:
        loop.remove_reader(handle)
        os.close(handle)


async def _reported(client: Client, city: CityLayout) -> None:
    """Wait for the node and print its state."""
    deadline = client.clock.monotonic() + _READY_TIMEOUT
    while trouble := await _trouble(client, city):
        if client.clock.monotonic() > deadline:
            print(f"{city.node} is not ready: {trouble}. Its log is {city.log}", file=sys.stderr)
            return
        await client.clock.sleep(0.2)
    print(f"{city.node} is ready at {city.host.addresses[0]}", file=sys.stderr)


async def _trouble(client: Client, city: CityLayout) -> str:
    try:
        node = await client.resource(NODES).get(city.node)
    except NotFound:
        return f"it has not registered (it says: {last_words(city.log)})"
    ready = condition_of(node, "Ready")
    if not ready:
        return "it has no status yet"
    return "" if ready["status"] == "True" else f"{ready['reason']}: {ready.get('message', '')}"


async def print_accelerator(client: Client, node: str) -> None:
    """Print the mode of one node; all are on the same host. A node without machines has reported that in its events."""
    deadline = client.clock.monotonic() + _TIMEOUT
    while client.clock.monotonic() < deadline:
        try:
            labels = (await client.resource(NODES).get(node))["metadata"].get("labels") or {}
        except (ApiError, ClientError):
            labels = {}
        if message := _MESSAGES.get(labels.get(LABEL_ACCELERATOR, "")):
            print(message, file=sys.stderr)
            return
        await client.clock.sleep(_POLL_INTERVAL)


# Writes the location of the built-in machine image files to the catalogue at every start, if they exist.
#
# The spec of each image is in a file next to it. A source set by an administrator is left alone; one set by Tarmac is
# updated, since a newer file has a different checksum.


async def set_image_sources(client: Client, folder: Path | None = None) -> None:
    """Set the source of each image with a local file. A failure leaves the image without a source."""
    for path in sorted((folder or parts_folder() / "machine-images").glob("*.json")):
        try:
            await _set_image_source(client, f"tarmac-{path.stem}", _decode(path.read_bytes()))
        except (ApiError, OSError, msgspec.MsgspecError) as error:
            _log.warning("machine image source cannot be set", image=path.stem, why=str(error))


async def _set_image_source(client: Client, name: str, spec: JsonObject) -> None:
    images = client.resource(_IMAGES)
    try:
        found = (await images.get(name))["spec"]
    except NotFound:
        return  # an administrator deleted it
    is_ours = found.get("source") in (None, spec["source"])
    if is_ours and any(found.get(field) != value for field, value in spec.items()):
        await images.patch(name, {"spec": spec}, type="merge", manager=_FIELD_MANAGER)
