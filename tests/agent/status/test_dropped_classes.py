"""On a server that drops unknown fields, an annotation in the same patch carries a pod's classes."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from typing import Any

import msgspec

from tarmac.agent.model.pod import AgentPod
from tarmac.agent.status.writer import StatusWriter
from tarmac.client.client import Client
from tarmac.client.transport import ClientRequest, Reply, StreamReply

KEY = "node.tarmac/classes"
POD = AgentPod(
    {"metadata": {"namespace": "a", "name": "b", "uid": "u", "resourceVersion": "1"}, "spec": {}, "status": {}}
)


def status(classes: dict[str, str], phase: str = "Running") -> dict[str, Any]:
    resources = {"requests": {"cpu": "1"}, **({"classes": classes} if classes else {})}
    return {"phase": phase, "containerStatuses": [{"name": "main", "resources": resources}]}


class Server:
    """Stores statuses, with or without the field `classes`."""

    def __init__(self, *, drops: bool) -> None:
        self.bodies: list[dict[str, Any]] = []
        self._drops = drops
        self._annotations: dict[str, str] = {}
        self._status: dict[str, Any] = {}

    async def request(self, request: ClientRequest) -> Reply:
        body = msgspec.json.decode(request.body or b"{}")
        self.bodies.append(body)
        for key, value in (body.get("metadata", {}).get("annotations") or {}).items():
            if value is None:
                self._annotations.pop(key, None)
            else:
                self._annotations[key] = value
        self._status |= msgspec.json.decode(msgspec.json.encode(body.get("status") or {}))
        if self._drops:
            for each in self._status.get("containerStatuses") or ():
                each["resources"].pop("classes", None)
        version = str(len(self.bodies) + 1)
        metadata = {**POD.metadata, "resourceVersion": version, "annotations": self._annotations}
        return Reply(200, {}, msgspec.json.encode({"metadata": metadata, "status": self._status}))

    def stream(self, request: ClientRequest) -> AbstractAsyncContextManager[StreamReply]:
        raise NotImplementedError

    async def close(self) -> None:
        return None


def told_by_annotation(body: dict[str, Any]) -> dict[str, Any] | None:
    return body.get("metadata", {}).get("annotations")


async def tell(server: Server, *statuses: dict[str, Any]) -> None:
    writer = StatusWriter(Client(server))
    writer.observe(POD)
    for each in statuses:
        writer.submit("u", each)
        await writer.settled()


async def test_dropped_classes_are_sent_as_an_annotation_only_on_change() -> None:
    server = Server(drops=True)
    await tell(server, status({"blockio": "slow"}), status({"blockio": "slow"}, "Failed"), status({"blockio": "fast"}))
    first, again, changed, other = server.bodies
    assert first["status"]["containerStatuses"][0]["resources"]["classes"] == {"blockio": "slow"}
    said = {"containers": {"main": {"blockio": "slow"}}, "pod": {}}
    assert msgspec.json.decode(again["metadata"]["annotations"][KEY]) == said
    assert "classes" not in str(again.get("status"))
    assert (changed["status"], told_by_annotation(changed)) == ({"phase": "Failed"}, None)
    assert msgspec.json.decode(other["metadata"]["annotations"][KEY])["containers"] == {"main": {"blockio": "fast"}}


async def test_without_classes_the_annotation_goes() -> None:
    server = Server(drops=True)
    await tell(server, status({"blockio": "slow"}), status({}))
    assert told_by_annotation(server.bodies[-1]) == {KEY: None}


async def test_a_server_that_knows_classes_gets_no_annotation() -> None:
    server = Server(drops=False)
    await tell(server, status({"blockio": "slow"}), status({"blockio": "fast"}))
    assert len(server.bodies) == 2
    assert [told_by_annotation(each) for each in server.bodies] == [None, None]
