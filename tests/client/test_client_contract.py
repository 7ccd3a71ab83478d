"""The client's contract, on every server it works with. The model skips the parts that need a whole server."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Any

import msgspec
import pytest

from tarmac.api.status import AlreadyExists, Conflict, Invalid, NotFound
from tarmac.client.cache import Item, by_label
from tarmac.client.client import Client
from tarmac.client.discovery import discover
from tarmac.client.envelope import EnvelopeMetadata
from tarmac.client.errors import NotLeader
from tarmac.client.eventrecorder import Recorder
from tarmac.client.informer import Informers
from tarmac.client.leader import Elector, FencedTransport, Leadership
from tarmac.client.resourceclient import ResourceClient
from tarmac.client.targets.target import declared
from tarmac.client.targets.untyped import CONFIG_MAPS, EVENTS, LEASES, NAMESPACES, PODS, SERVICE_ACCOUNTS
from tests.client.conftest import WHOLE_SERVERS

Json = dict[str, Any]

# The model has no validation, field ownership or dry runs.
whole_servers = pytest.mark.parametrize("client", WHOLE_SERVERS, indirect=True)


def config_map(namespace: str, name: str, labels: dict[str, str] | None = None, **data: str) -> Json:
    metadata = {"name": name, "namespace": namespace, "labels": {"made-by": "test", **(labels or {})}}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}


OURS = "made-by=test"
"""Servers create objects of their own in a namespace; this selects ours."""


@pytest.fixture
def maps(client: Client) -> ResourceClient[Json]:
    return client.resource(CONFIG_MAPS)


async def test_an_object_is_created_read_replaced_and_deleted(maps: ResourceClient[Json], namespace: str) -> None:
    created = await maps.create(config_map(namespace, "a", v="1"))
    assert created["metadata"]["uid"]
    read = await maps.get("a", namespace)
    assert read == created
    replaced = await maps.update({**read, "data": {"v": "2"}})
    assert replaced["metadata"]["resourceVersion"] != created["metadata"]["resourceVersion"]
    await maps.delete("a", namespace)
    with pytest.raises(NotFound) as caught:
        await maps.get("a", namespace)
    assert caught.value.details == {"name": "a", "kind": "configmaps"}


async def test_refusals_are_exceptions_by_reason(maps: ResourceClient[Json], namespace: str) -> None:
    first = await maps.create(config_map(namespace, "a"))
    with pytest.raises(AlreadyExists):
        await maps.create(config_map(namespace, "a"))
    await maps.update({**first, "data": {"v": "2"}})
    with pytest.raises(Conflict) as caught:
        await maps.update({**first, "data": {"v": "3"}})
    assert not isinstance(caught.value, AlreadyExists)
    with pytest.raises(Conflict):
        await maps.delete("a", namespace, uid="00000000-0000-0000-0000-000000000000")


@whole_servers
async def test_a_bad_object_names_its_fields(client: Client, namespace: str) -> None:
    with pytest.raises(Invalid) as caught:
        await client.resource(CONFIG_MAPS).create(config_map(namespace, "Not A Name"))
    assert caught.value.details is not None
    assert [each["field"] for each in caught.value.details["causes"]] == ["metadata.name"]


@whole_servers
async def test_four_kinds_of_patch(maps: ResourceClient[Json], namespace: str) -> None:
    await maps.create(config_map(namespace, "a", v="1", w="1"))
    merged = await maps.patch("a", {"data": {"v": "2", "w": None}}, namespace)
    assert merged["data"] == {"v": "2"}
    operations = [{"op": "add", "path": "/data/x", "value": "3"}]
    assert (await maps.patch("a", operations, namespace, type="json"))["data"] == {"v": "2", "x": "3"}
    strategic = await maps.patch("a", {"data": {"$patch": "replace", "y": "4"}}, namespace, type="strategic")
    assert strategic["data"] == {"y": "4"}
    applied = await maps.patch(
        "a", config_map(namespace, "a", z="5"), namespace, type="apply", manager="m", force=False
    )
    assert applied["data"] == {"y": "4", "z": "5"}


@whole_servers
async def test_a_patch_for_one_object_does_not_touch_another_of_its_name(
    maps: ResourceClient[Json], namespace: str
) -> None:
    first = await maps.create(config_map(namespace, "a", v="1"))
    uid = first["metadata"]["uid"]
    assert (await maps.patch("a", {"data": {"v": "2"}}, namespace, uid=uid))["data"] == {"v": "2"}
    await maps.delete("a", namespace)
    await maps.create(config_map(namespace, "a", v="1"))
    with pytest.raises(Conflict, match=r"metadata\.uid"):
        await maps.patch("a", {"data": {"v": "3"}}, namespace, uid=uid)
    with pytest.raises(Invalid):  # other errors keep their type
        await maps.patch("a", {"metadata": {"labels": {"-": "x"}}}, namespace, uid="")
    assert (await maps.get("a", namespace))["data"] == {"v": "1"}


@whole_servers
async def test_apply_creates_owns_and_takes_over_only_by_force(maps: ResourceClient[Json], namespace: str) -> None:
    wanted = config_map(namespace, "a", v="1")
    assert (await maps.apply(wanted, manager="one"))["data"] == {"v": "1"}
    with pytest.raises(Conflict, match="one"):
        await maps.apply(config_map(namespace, "a", v="2"), manager="two", force=False)
    assert (await maps.apply(config_map(namespace, "a", v="2"), manager="two"))["data"] == {"v": "2"}
    assert "v" not in ((await maps.apply(config_map(namespace, "a"), manager="two")).get("data") or {})


@whole_servers
async def test_a_dry_run_changes_nothing(maps: ResourceClient[Json], namespace: str) -> None:
    await maps.create(config_map(namespace, "a"), dry_run=True)
    with pytest.raises(NotFound):
        await maps.get("a", namespace)


async def test_pages_add_up_to_the_whole(maps: ResourceClient[Json], namespace: str) -> None:
    names = [f"c{number:02}" for number in range(23)]
    for name in names:
        await maps.create(config_map(namespace, name, {"parity": "even" if int(name[1:]) % 2 == 0 else "odd"}))
    pages = [page async for page in maps.pages(namespace, labels=OURS, limit=10)]
    assert [len(page.items) for page in pages] == [10, 10, 3]
    assert [item["metadata"]["name"] for page in pages for item in page.items] == names
    assert len({page.resource_version for page in pages}) == 1, "one snapshot"
    even = await maps.list(namespace, labels="parity=even")
    assert len(even.items) == 12


@whole_servers
async def test_a_collection_is_deleted_by_selector(maps: ResourceClient[Json], namespace: str) -> None:
    for name in ("a", "b", "c"):
        await maps.create(config_map(namespace, name, {"name": name}))
    await maps.delete_collection(namespace, labels="name in (a,b)")
    assert [item["metadata"]["name"] for item in (await maps.list(namespace, labels=OURS)).items] == ["c"]


async def test_a_watch_tells_every_later_change(maps: ResourceClient[Json], namespace: str) -> None:
    await maps.create(config_map(namespace, "before"))
    version = (await maps.list(namespace)).resource_version
    await maps.create(config_map(namespace, "a", v="1"))
    heard: list[tuple[str, str]] = []
    async with asyncio.timeout(10), maps.watch(namespace, resource_version=version, labels=OURS) as changes:
        await maps.patch("a", {"data": {"v": "2"}}, namespace)
        await maps.delete("a", namespace)
        async for change in changes:
            if change.type != "BOOKMARK":
                heard.append((change.type, change.metadata.name))
            if change.type == "DELETED":
                break
    assert heard == [("ADDED", "a"), ("MODIFIED", "a"), ("DELETED", "a")]


async def test_an_informer_is_a_faithful_copy(client: Client, maps: ResourceClient[Json], namespace: str) -> None:
    await maps.create(config_map(namespace, "a", {"app": "web"}, v="1"))
    informers = Informers(client)
    informer = informers.informer(CONFIG_MAPS, namespace=namespace)
    chosen = informers.informer(CONFIG_MAPS, namespace=namespace, labels="app=web")
    informer.add_index("app", by_label("app"))
    heard: list[str] = []
    told = asyncio.Event()

    def hear(old: Item[Json] | None, new: Item[Json] | None) -> None:
        item = new or old
        assert item is not None
        heard.append(("added" if old is None else "removed" if new is None else "changed") + f" {item.metadata.name}")
        if heard[-1] == "removed z":
            told.set()

    informer.on_change(hear)
    async with asyncio.timeout(20), asyncio.TaskGroup() as group:
        running = group.create_task(informers.run())
        await informers.synced()
        assert [item.key for item in informer.indexed("app", "web")] == [f"{namespace}/a"]
        await maps.patch("a", {"data": {"v": "2"}, "metadata": {"labels": {"app": "db"}}}, namespace)
        await maps.create(config_map(namespace, "z"))
        await maps.delete("z", namespace)
        await told.wait()
        await _until(lambda: not chosen.cache.keys())
        running.cancel()
    own = [each for each in heard if "kube-root-ca" not in each]
    assert own == ["added a", "changed a", "added z", "removed z"]
    read = informer.get(f"{namespace}/a")
    assert read == await maps.get("a", namespace)
    assert informer.stats.lists == 1


async def _until(condition: Any) -> None:
    while not condition():
        await asyncio.sleep(0.01)


class Map(msgspec.Struct):
    """A ConfigMap, typed."""

    metadata: EnvelopeMetadata
    data: dict[str, str] = {}


@whole_servers
async def test_typed_objects_come_and_go(client: Client, namespace: str) -> None:
    typed = client.resource(CONFIG_MAPS.typed(Map))
    created = await typed.create(Map(EnvelopeMetadata(name="a", namespace=namespace), {"v": "1"}))
    assert created.metadata.uid
    assert (await typed.get("a", namespace)).data == {"v": "1"}
    assert declared(Map, "example.com/v1", "maps").path("ns", "x") == "/apis/example.com/v1/namespaces/ns/maps/x"


@whole_servers
async def test_status_is_written_through_its_subresource(client: Client, namespace: str) -> None:
    with suppress(AlreadyExists):
        await client.resource(SERVICE_ACCOUNTS).create({"metadata": {"name": "default", "namespace": namespace}})
    pods = client.resource(PODS)
    container = {"name": "c", "image": "busybox"}
    metadata = {"name": "p", "namespace": namespace}
    spec = {"containers": [container], "automountServiceAccountToken": False, "schedulerName": "nobody"}
    await pods.create({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec})
    pod = await pods.patch("p", {"status": {"phase": "Running"}}, namespace, subresource="status")
    assert pod["status"]["phase"] == "Running"
    pod["status"]["message"] = "hello"
    pod["spec"] = {}
    assert (await pods.update(pod, subresource="status"))["spec"]["containers"][0]["image"] == "busybox"


async def test_discovery_finds_what_is_served(client: Client) -> None:
    found = await discover(client)
    served = {(each.target.group, each.target.plural): each for each in found.resources}
    assert not found.failures
    assert served["", "namespaces"].target.kind == "Namespace"
    assert not served["", "namespaces"].target.namespaced
    assert {"create", "delete", "watch"} <= served["coordination.k8s.io", "leases"].verbs
    assert ("", "pods/status") not in served


async def test_a_leader_leads_and_lets_go(client: Client, namespace: str) -> None:
    leadership: Leadership | None = None

    async def lead(given: Leadership) -> None:
        nonlocal leadership
        leadership = given
        fenced = Client(FencedTransport(client.transport, given))
        await fenced.resource(CONFIG_MAPS).create(config_map(namespace, "by-the-leader"))
        lease = await client.resource(LEASES).get("lock", namespace)
        assert lease["spec"]["holderIdentity"] == "me"

    async with asyncio.timeout(10):
        await Elector(client, "lock", namespace, "me").run(lead)
    lease = await client.resource(LEASES).get("lock", namespace)
    assert not lease["spec"].get("holderIdentity")
    assert leadership is not None
    with pytest.raises(NotLeader):
        await Client(FencedTransport(client.transport, leadership)).resource(CONFIG_MAPS).delete("x", namespace)


async def test_events_are_counted_and_not_repeated(client: Client, namespace: str) -> None:
    about = await client.resource(CONFIG_MAPS).create(config_map(namespace, "a"))
    recorder = Recorder(client, "tests")
    for _ in range(3):
        recorder.event(about, "Warning", "Broken", "it broke")
    recorder.event(about, "Normal", "Fixed", "it works")
    await recorder.flush()
    events = (await client.resource(EVENTS).list(namespace)).items
    seen = {each["reason"]: (each["type"], each["count"], each["involvedObject"]["name"]) for each in events}
    assert seen == {"Broken": ("Warning", 3, "a"), "Fixed": ("Normal", 1, "a")}


async def test_a_namespace_can_be_read_by_name(client: Client, namespace: str) -> None:
    read = await client.resource(NAMESPACES).get(namespace)
    assert read["metadata"]["name"] == namespace
