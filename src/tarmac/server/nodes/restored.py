"""After a restore: nodes tell what runs, the server says what stands against it, people decide.

Each node answers to a restore by itself (`agent.pods.restoration`). Until every node has, or `PATIENCE` is over, since
some may be lost for good, no node starts anything: what it would start may run elsewhere. From then on only the names
wait that something else has.
"""

from __future__ import annotations

from collections.abc import Awaitable
from contextlib import suppress
from typing import TypeVar

import msgspec

from tarmac.api.catalog import Catalog
from tarmac.api.identities import RESTORED
from tarmac.api.kubernetes.core.pods.phases import is_terminal
from tarmac.api.restored import (
    NODES_PATH,
    RESTORED_PATH,
    RestoredDecision,
    RunningAnswer,
    RunningReport,
    difference,
)
from tarmac.api.schema import JsonObject
from tarmac.api.status import NO_METHOD, BadRequest, Conflict, Forbidden, MethodNotAllowed, NotFound
from tarmac.base.clock import Clock
from tarmac.http.messages import Answer, Request, Response
from tarmac.server.endpoints.documents import Endpoint
from tarmac.server.nodes.adopting import adopt
from tarmac.server.reader import Reader
from tarmac.server.restored import RUNNING, RestoredConflict, conflicts
from tarmac.server.security.nodeauthorizer import node_name
from tarmac.store.interface import Conflict as Overwritten
from tarmac.store.interface import Exists, Missing

PATIENCE = 60.0
_REPORTED = "tarmac/reported"
_NODES, _PODS = "core/nodes", "core/pods"
_MOST_PODS = 2000
_LOOK_AGAIN = 2.0
_T = TypeVar("_T")


class RestoredPods:
    """Answers nodes and people."""

    def __init__(self, reader: Reader, catalog: Catalog, clock: Clock) -> None:
        self._reader = reader
        self._store = reader.store
        self._catalog = catalog
        self._clock = clock
        self._began = clock.monotonic()
        self._silent: set[str] = set()  # nodes that are yet to answer, as of the last look
        self._looked = -_LOOK_AGAIN

    def beside(self, others: Endpoint | None) -> Endpoint:
        """Below `NODES_PATH`: reports here, everything else there."""

        def answer(request: Request) -> Answer | Awaitable[Answer]:
            name, _, rest = request.path.removeprefix(NODES_PATH).partition("/")
            if rest == "running":
                return self._report(request, name)
            if others is None:
                raise NotFound("the server could not find the requested resource", details={})
            return others(request)

        return answer

    async def people(self, request: Request) -> Response:
        """`RESTORED_PATH`: who may use it is the authorizer's business. Raises ApiError."""
        await self._caught_up()
        if request.path != RESTORED_PATH:
            raise NotFound("the server could not find the requested resource", details={})
        if request.method in ("GET", "HEAD"):
            items = [_shown(each) for _, each in conflicts(self._store)]
            return Response(200, msgspec.json.encode({"kind": "RestoredConflictList", "items": items}))
        if request.method != "POST":
            raise MethodNotAllowed(NO_METHOD, details={})
        decision = _decoded(request, RestoredDecision)
        return Response(200, msgspec.json.encode(await self._decide(decision)))

    # Nodes.

    async def _report(self, request: Request, node: str) -> Response:
        if not node or node_name(request.user) != node:
            raise Forbidden(f'only the node "{node}" may say what runs there', details={})
        if request.method != "POST":
            raise MethodNotAllowed(NO_METHOD, details={})
        report = _decoded(request, RunningReport)
        if len(report.pods) > _MOST_PODS:
            raise BadRequest(f"no node runs {len(report.pods)} pods")
        await self._caught_up()
        if not report.restored or self._restored_at(node) != report.restored:
            raise Conflict(f'node "{node}" answers to no restore of this store', details={})
        going = await self._compare(node, [each for each in report.pods if _is_pod(each)])
        await self._remember(node, report.restored)
        held = [key for key in report.waiting if any(True for _ in conflicts(self._store, f"{key}/"))]
        return Response(200, msgspec.json.encode(RunningAnswer(self._is_settled(), held, going)))

    async def _compare(self, node: str, pods: list[JsonObject]) -> list[str]:
        """Keep this node's conflicts as they are now; the uids of those that are to end."""
        known = {each.key: (entry, each) for entry, each in conflicts(self._store) if each.node == node}
        going: list[str] = []
        for pod in pods:
            own = pod["metadata"]
            why = difference(self._reader.get(_PODS, f"{own['namespace']}/{own['name']}"), pod, node)
            if not why or is_terminal(pod):
                continue
            now = RestoredConflict(own["namespace"], own["name"], node, pod, why, False)
            entry, before = known.pop(now.key, (None, None))
            if before is not None and before.removed and before.pod["metadata"]["uid"] == own["uid"]:
                going.append(own["uid"])
            elif entry is None or before is None:
                with suppress(Exists):  # two reports at once
                    await self._store.create(RUNNING, now.key, now.encoded())
            elif (before.pod["metadata"]["uid"], before.why) != (own["uid"], why):
                with suppress(Missing, Overwritten):
                    await self._store.update(RUNNING, now.key, now.encoded(), entry.revision)
        for entry, _ in known.values():  # it has ended, or the store has it now
            with suppress(Missing, Overwritten):
                await self._store.delete(RUNNING, entry.name, entry.revision)
        return going

    async def _remember(self, node: str, time: str) -> None:
        self._silent.discard(node)
        entry = self._store.head(_REPORTED, node)
        value = msgspec.json.encode({"metadata": {"name": node}, "restored": time})
        with suppress(Exists, Missing, Overwritten):
            if entry is None:
                await self._store.create(_REPORTED, node, value)
            elif self._reported(node) != time:
                await self._store.update(_REPORTED, node, value, entry.revision)

    def _is_settled(self) -> bool:
        """Whether everybody has answered. Every node asks again and again, so this looks at all of them rarely."""
        now = self._clock.monotonic()
        if now - self._began >= PATIENCE:
            return True
        if now - self._looked >= _LOOK_AGAIN:
            self._looked = now
            names = [entry.name for entry in self._store.list(_NODES).entries]
            self._silent = {name for name in names if (at := self._restored_at(name)) and self._reported(name) != at}
        return not self._silent

    def _restored_at(self, node: str) -> str:
        found = self._reader.get(_NODES, node)
        return ((found or {}).get("metadata", {}).get("annotations") or {}).get(RESTORED, "")

    def _reported(self, node: str) -> str:
        return (self._reader.get(_REPORTED, node) or {}).get("restored", "")

    # People.

    async def _decide(self, decision: RestoredDecision) -> JsonObject:
        where = f"{decision.namespace}/{decision.name}"
        found = [
            (entry, each) for entry, each in conflicts(self._store, f"{where}/") if decision.node in ("", each.node)
        ]
        if not found:
            raise NotFound(f'there is no restored conflict about "{where}"', details={})
        if len(found) > 1:
            nodes = " and ".join(each.node for _, each in found)
            raise Conflict(f'"{where}" runs on {nodes}: say which by node', details={})
        [(entry, conflict)] = found
        if decision.action == "remove":
            with suppress(Missing, Overwritten):
                removed = conflict._replace(removed=True)
                await self._store.update(RUNNING, entry.name, removed.encoded(), entry.revision)
            return {"done": f"{where} is ended on {conflict.node}"}
        if decision.action != "adopt":
            raise BadRequest(f"action must be adopt or remove, not {decision.action!r}")
        told = await adopt(self._reader, self._catalog, conflict)
        with suppress(Missing, Overwritten):
            await self._store.delete(RUNNING, entry.name, entry.revision)
        return {"done": told}

    async def _caught_up(self) -> None:
        if (fresh := self._store.fresh()) is not None:
            await fresh


def _decoded(request: Request, kind: type[_T]) -> _T:
    try:
        return msgspec.json.decode(request.body, type=kind)
    except msgspec.DecodeError as error:
        raise BadRequest(f"the body cannot be read: {error}") from error


def _is_pod(pod: JsonObject) -> bool:
    """Whether it can be compared at all: what a node says is believed in nothing else."""
    own = pod.get("metadata")
    named = isinstance(own, dict) and all(
        isinstance(own.get(field), str) and own[field] and "/" not in own[field]
        for field in ("namespace", "name", "uid")
    )
    return named and isinstance(pod.get("spec"), dict) and isinstance(pod.get("status") or {}, dict)


def _shown(conflict: RestoredConflict) -> JsonObject:
    return {
        "namespace": conflict.namespace,
        "name": conflict.name,
        "node": conflict.node,
        "uid": conflict.pod["metadata"]["uid"],
        "why": conflict.why,
        "removed": conflict.removed,
        "message": conflict.message,
    }
