"""Lists and initial states that are built cooperatively, during other writes: each is still of one revision."""

from __future__ import annotations

import asyncio
import gc
import json
from typing import Any

import pytest

from tarmac.api.catalog import build_catalog
from tarmac.base import cooperative
from tarmac.base.clock import ManualClock
from tarmac.server.printing.answers import finish
from tarmac.server.printing.negotiation import AnswerShape
from tarmac.server.printing.table import TablePrinter, TableRow
from tarmac.server.storage import batches
from tarmac.server.storage.derived import DerivedData
from tarmac.server.storage.listcache import ListCache
from tarmac.server.storage.selectors import Index
from tarmac.store.interface import Entry, splice
from tarmac.store.memory import MemoryStore
from tests.server.conftest import Client, Watching

CONFIGMAPS = "/api/v1/namespaces/default/configmaps"
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"
METADATA = "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io"
COUNT = 40


@pytest.fixture
def small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make every object take a whole turn."""
    monkeypatch.setattr(cooperative, "_SLICE_SECONDS", 0.0)
    monkeypatch.setattr(batches, "_MAX_BATCH", 1)


@pytest.fixture
def worked_out(monkeypatch: pytest.MonkeyPatch) -> list[bytes]:
    """Collect every object that a row is made of."""
    made: list[bytes] = []
    work_out = TablePrinter.work_out

    def counted(self: TablePrinter, raw: bytes) -> TableRow:
        made.append(raw)
        return work_out(self, raw)

    monkeypatch.setattr(TablePrinter, "work_out", counted)
    return made


async def filled(api: Client) -> None:
    for number in range(COUNT):
        labels = {"half": str(number % 2)}
        body = {"metadata": {"name": f"m{number:02}", "labels": labels}, "data": {"v": "old"}}
        assert (await api.post(CONFIGMAPS, body)).status == 201


async def meddle(api: Client, task: asyncio.Future[Any]) -> int:
    """Change, delete and create while the task runs; return the number of rounds."""
    rounds = 0
    while not task.done():
        name = f"{CONFIGMAPS}/m{COUNT - 1 - rounds % COUNT:02}"
        await api.patch(name, {"data": {"v": "new"}, "metadata": {"labels": {"half": "none"}}})
        await api.delete(f"{CONFIGMAPS}/m{rounds % COUNT:02}")
        await api.configmap(f"x{rounds}")
        rounds += 1
    return rounds


def objects(answer: Any) -> list[Any]:
    return [row["object"] for row in answer["rows"]] if "rows" in answer else answer["items"]


@pytest.mark.parametrize("selector", ["", "&labelSelector=half%3D1"])
@pytest.mark.parametrize("query", ["x=y", "pretty=1", "limit=30"])
@pytest.mark.parametrize("accept", ["application/json", TABLE, METADATA])
@pytest.mark.usefixtures("small_pieces")
async def test_a_list_that_takes_many_turns_is_of_one_revision(
    api: Client, store: MemoryStore, accept: str, query: str, selector: str
) -> None:
    await filled(api)
    revision = store.revision
    asking = asyncio.ensure_future(api.get(f"{CONFIGMAPS}?{query}{selector}", accept=accept))
    assert await meddle(api, asking) >= 5
    listed = (await asking).json
    assert listed["metadata"]["resourceVersion"] == str(revision)
    expected = [f"m{number:02}" for number in range(COUNT) if not selector or number % 2][
        : 30 if "limit" in query else 99
    ]
    assert [item["metadata"]["name"] for item in objects(listed)] == expected
    assert all(item.get("data", {}).get("v", "old") == "old" for item in objects(listed))


@pytest.mark.parametrize("accept", ["application/json", TABLE, METADATA])
async def test_a_list_in_pieces_is_what_it_is_in_one(api: Client, accept: str, monkeypatch: pytest.MonkeyPatch) -> None:
    await filled(api)
    monkeypatch.setattr(ListCache, "get", lambda *_: None)
    for query in ("", "?pretty=1", "?limit=7", "?labelSelector=half%3D0&limit=7", "?labelSelector=no%3Dthing&pretty=1"):
        whole = (await api.get(CONFIGMAPS + query, accept=accept)).raw
        with monkeypatch.context() as patched:
            patched.setattr(cooperative, "_SLICE_SECONDS", 0.0)
            patched.setattr(batches, "_MAX_BATCH", 1)
            assert (await api.get(f"{CONFIGMAPS}{query}", accept=accept)).raw == whole
        if "pretty" in query:
            assert whole.decode() == json.dumps(json.loads(whole), indent=2, ensure_ascii=False) + "\n"


@pytest.mark.parametrize("selector", ["", "&labelSelector=half%3D1"])
@pytest.mark.parametrize("accept", ["application/json", TABLE])
@pytest.mark.usefixtures("small_pieces")
async def test_events_during_the_initial_state_of_a_watch_follow_it(api: Client, accept: str, selector: str) -> None:
    await filled(api)
    url = f"{CONFIGMAPS}?watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true"
    asking = asyncio.ensure_future(api.watch(url + selector, accept=accept))
    assert await meddle(api, asking) >= 5
    await api.delete(f"{CONFIGMAPS}/m{COUNT - 1}")
    state = followed(await asking, table=accept == TABLE)
    listed = (await api.get(f"{CONFIGMAPS}?{selector}")).json["items"]
    assert state == {item["metadata"]["name"]: item["metadata"]["resourceVersion"] for item in listed}


def followed(watching: Watching, table: bool) -> dict[str, str]:
    """Return the state of a client that applies every event, each once and in order."""
    known: dict[str, str] = {}
    for number, (kind, obj) in enumerate(watching.events):
        if table:
            assert bool(obj["columnDefinitions"]) == (number == 0)
            obj = obj["rows"][0]["object"]
        name, version = obj["metadata"].get("name", ""), obj["metadata"]["resourceVersion"]
        if kind == "DELETED":
            del known[name]
        elif kind != "BOOKMARK":
            assert (name in known) == (kind == "MODIFIED")
            assert int(version) > int(known.get(name, "0"))
            known[name] = version
    return known


async def test_a_row_is_worked_out_once_for_each_version(
    api: Client, worked_out: list[bytes], clock: ManualClock
) -> None:
    await filled(api)
    watching = await api.watch(f"{CONFIGMAPS}?watch=1", accept=TABLE)
    for include in ("Metadata", "Object", "None"):
        clock.advance(100)
        listed = (await api.get(f"{CONFIGMAPS}?includeObject={include}", accept=TABLE)).json
    assert len(worked_out) == COUNT
    assert {row["cells"][2] for row in listed["rows"]} == {"5m"}
    await api.patch(f"{CONFIGMAPS}/m00", {"data": {"w": "x"}})
    assert watching.events[-1][1]["rows"][0]["cells"][1] == 2
    listed = (await api.get(CONFIGMAPS, accept=TABLE)).json
    assert listed["rows"][0]["cells"][:2] == ["m00", 2]
    assert len(worked_out) == COUNT + 1


def test_derived_data_is_freed_with_its_version() -> None:
    gc.collect()
    before = sum(type(each) is DerivedData for each in gc.get_objects())
    resource = next(each for each in build_catalog() if each.plural == "pods")
    index = Index(resource)
    for number in range(100):
        value = b'{"metadata":{"name":"p%d","labels":{"a":"b"}},"spec":{},"status":{}}' % number
        assert index.look(Entry(f"p{number}", number, number, splice(value, number))).labels == {"a": "b"}
    gc.collect()
    assert sum(type(each) is DerivedData for each in gc.get_objects()) == before


def test_a_large_list_is_sent_in_its_chunks_also_as_yaml() -> None:
    """A document beyond the limit of conversion stays JSON, which is valid YAML: joining it would block the loop."""
    chunks = [b"[", *[b"1" * 40_000] * 2, b"]"]
    answer = finish(chunks, AnswerShape(yaml=True))
    assert answer.body == chunks
    assert answer.content_type == "application/yaml"
    assert finish([b'{"a":', b"[1]}"], AnswerShape(yaml=True)).body == b"a:\n- 1\n"
