"""Reports of nodes after a restore, and their conflicts with the store.

The answer tells a node if all nodes have reported. Until then no node starts a pod, because it may run elsewhere; after
`TIMEOUT` this ends, since some nodes may be lost for good. From then on only pods with a conflicting name wait.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Any, TypeVar

import msgspec

from tarmac.api.decode.extent import check_extent
from tarmac.api.kubernetes.core.pods.phases import is_terminal
from tarmac.api.restored import RunningAnswer, difference
from tarmac.api.schema import JsonObject
from tarmac.api.status import NO_METHOD, BadRequest, Conflict, Forbidden, MethodNotAllowed
from tarmac.base.clock import Clock
from tarmac.base.names import dns1123_label, dns1123_subdomain
from tarmac.http.messages import Request, Response
from tarmac.server.reader import Reader
from tarmac.server.restored import RUNNING, RestoredConflict, conflict_keys, conflicts, restored_at
from tarmac.server.security.authorization.nodeauthorizer import node_name
from tarmac.store.interface import Exists, Missing, Store
from tarmac.store.interface import RevisionConflict as Overwritten

TIMEOUT = 60.0
_REPORTED = "tarmac/reported"
_NODES, _PODS = "core/nodes", "core/pods"
_MAX_PODS = 2000
_MAX_VALUES = 200_000  # in a report; each of its pods has the limit of any object
_MAX_UID = 128
_RETRY_INTERVAL = 2.0
_T = TypeVar("_T")


class _Report(msgspec.Struct):
    """A `RunningReport` with its pods not decoded yet."""

    restored: str
    pods: list[msgspec.Raw] = []
    waiting: list[str] = []


class RunningReports:
    """Answers reports of nodes."""

    def __init__(self, reader: Reader, clock: Clock) -> None:
        self._reader = reader
        self._store = reader.store
        self._clock = clock
        self._began = clock.monotonic()
        self._silent: set[str] = set()  # nodes without a report, as of the last check
        self._looked = -_RETRY_INTERVAL

    async def answer(self, request: Request, node: str) -> Response:
        """Handle one report. Raises ApiError."""
        if not node or node_name(request.user) != node:
            raise Forbidden(f'only the node "{node}" may say what runs there', details={})
        if request.method != "POST":
            raise MethodNotAllowed(NO_METHOD, details={})
        # Before decoding: small values take many times the size of their text in memory.
        check_extent(request.body, _MAX_VALUES)
        report = decoded(request, _Report)
        for field, told in (("pods", report.pods), ("waiting", report.waiting)):
            if len(told) > _MAX_PODS:
                raise BadRequest(f"{field}: no node runs {len(told)} pods; the limit is {_MAX_PODS}")
        pods = await self._decode_pods(report.pods)
        # Before the comparison: pods that another server stored meanwhile would count as unknown to the store.
        await caught_up(self._store)
        uid = self._uid(node)
        # The record of the restore decides. The annotation of a Node is only a notice to its agent and proves nothing.
        if not report.restored or not uid or restored_at(self._store) != report.restored:
            raise Conflict(f'node "{node}" answers to no restore of this store', details={})
        answered = self._reported(node) == (report.restored, uid)
        # Store conflicts before the node counts as reported: otherwise other nodes could start pods of the same names.
        going = await self._compare(node, pods, closed=answered)
        if not answered:
            await self._remember(node, report.restored, uid)
        # After the comparison: conflicts of this report hold back the same names on this node, too.
        taken = conflict_keys(self._store)
        held = [key for key in report.waiting if key in taken]
        return Response(200, msgspec.json.encode(RunningAnswer(self._is_settled(), held, going)))

    async def _decode_pods(self, told: list[msgspec.Raw]) -> list[JsonObject]:
        """Return the comparable pods. Yields to the event loop after each: one report may hold three megabytes."""
        found: list[JsonObject] = []
        for raw in told:
            text = bytes(raw)
            check_extent(text)
            pod = msgspec.json.decode(text)
            if _is_pod(pod):
                found.append(pod)
            await self._clock.sleep(0)
        return found

    async def _compare(self, node: str, pods: list[JsonObject], *, closed: bool) -> list[str]:
        """Update this node's conflicts. Return the uids of pods that the node must stop.

        `closed`: the node has answered this restore, and its set of conflicts only shrinks. An agent knows all its pods
        before its first report; a later addition would let a stolen certificate block names at any time.
        """
        known = {each.key: (entry, each) for entry, each in conflicts(self._store, node=node)}
        going: list[str] = []
        for pod in pods:
            await self._clock.sleep(0)
            own = pod["metadata"]
            why = difference(self._reader.get(_PODS, f"{own['namespace']}/{own['name']}"), pod, node)
            if not why or is_terminal(pod):
                continue
            now = RestoredConflict(own["namespace"], own["name"], node, pod, why, False)
            entry, before = known.pop(now.key, (None, None))
            if before is not None and before.removed and before.pod["metadata"]["uid"] == own["uid"]:
                going.append(own["uid"])
            elif entry is None or before is None:
                if closed:
                    continue
                with suppress(Exists):  # two concurrent reports
                    await self._store.create(RUNNING, now.key, now.encoded())
            elif closed and before.pod["metadata"]["uid"] != own["uid"]:
                known[now.key] = (entry, before)  # a different pod than the one reported first
            elif (before.pod["metadata"]["uid"], before.why) != (own["uid"], why):
                if closed:
                    now = now._replace(pod=before.pod)
                with suppress(Missing, Overwritten):
                    await self._store.update(RUNNING, now.key, now.encoded(), entry.revision)
        for entry, _ in known.values():  # the pod has ended, or the store has it now
            with suppress(Missing, Overwritten):
                await self._store.delete(RUNNING, entry.name, entry.revision)
        return going

    async def _remember(self, node: str, time: str, uid: str) -> None:
        self._silent.discard(node)
        entry = self._store.head(_REPORTED, node)
        value = msgspec.json.encode({"metadata": {"name": node}, "restored": time, "uid": uid})
        # Lost to a concurrent report of the same node, which says the same; a kill before it makes the node report
        # again.
        with suppress(Exists, Missing, Overwritten):
            if entry is None:
                await self._store.create(_REPORTED, node, value)
            else:
                await self._store.update(_REPORTED, node, value, entry.revision)

    def _is_settled(self) -> bool:
        """Return True if all nodes have answered. Nodes poll this, so the scan of all nodes runs at most every 2 s."""
        now = self._clock.monotonic()
        if now - self._began >= TIMEOUT:
            return True
        if now - self._looked >= _RETRY_INTERVAL:
            self._looked = now
            names, time = [entry.name for entry in self._store.list(_NODES).entries], restored_at(self._store)
            self._silent = {name for name in names if self._reported(name) != (time, self._uid(name))}
        return not self._silent

    def _uid(self, node: str) -> str:
        return (self._reader.get(_NODES, node) or {}).get("metadata", {}).get("uid", "")

    def _reported(self, node: str) -> tuple[str, str]:
        """Return the restore that a node has answered, and its Node's uid at that time."""
        found = self._reader.get(_REPORTED, node) or {}
        return found.get("restored", ""), found.get("uid", "")


async def caught_up(store: Store) -> None:
    """Wait until this server has read all earlier writes of other servers."""
    if (fresh := store.fresh()) is not None:
        await fresh


def decoded(request: Request, kind: type[_T]) -> _T:
    """Decode the body of a request. Raises BadRequest."""
    try:
        return msgspec.json.decode(request.body, type=kind)
    except ValueError as error:  # also UnicodeDecodeError, which is no error of msgspec's own
        raise BadRequest(f"the body cannot be read: {error}") from error


def _is_pod(pod: Any) -> bool:
    """Return True if the value has the fields needed for comparison. A node's report is trusted for nothing else."""
    own = pod.get("metadata") if isinstance(pod, dict) else None
    if not isinstance(own, dict) or not all(isinstance(own.get(field), str) for field in ("namespace", "name", "uid")):
        return False
    named = not dns1123_label(own["namespace"]) and not dns1123_subdomain(own["name"])
    known = 0 < len(own["uid"]) <= _MAX_UID
    return named and known and isinstance(pod.get("spec"), dict) and isinstance(pod.get("status") or {}, dict)
