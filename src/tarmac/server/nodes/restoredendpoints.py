"""Endpoints after a restore: nodes report running pods (`runningreports`), and operators resolve conflicts."""

from __future__ import annotations

from collections.abc import Awaitable
from contextlib import suppress

import msgspec

from tarmac.api.catalog import Catalog
from tarmac.api.restored import NODES_PATH, RESTORED_PATH, RestoredDecision
from tarmac.api.schema import JsonObject
from tarmac.api.status import NO_METHOD, BadRequest, Conflict, MethodNotAllowed, NotFound
from tarmac.base.clock import Clock
from tarmac.http.messages import Answer, Request, Response
from tarmac.server.admission.chain import AdmissionChain
from tarmac.server.endpoints.documents import Endpoint
from tarmac.server.nodes.adopting import adopt
from tarmac.server.nodes.runningreports import RunningReports, caught_up, decoded
from tarmac.server.reader import Reader
from tarmac.server.restored import RUNNING, RestoredConflict, conflicts
from tarmac.server.security.users import User
from tarmac.store.interface import Missing
from tarmac.store.interface import RevisionConflict as Overwritten


class RestoredPods:
    """Answers nodes and operators."""

    def __init__(self, reader: Reader, catalog: Catalog, admission: AdmissionChain, clock: Clock) -> None:
        self._reader = reader
        self._store = reader.store
        self._catalog = catalog
        self._admission = admission
        self._reports = RunningReports(reader, clock)

    def beside(self, others: Endpoint | None) -> Endpoint:
        """Return the endpoint for `NODES_PATH`: reports are handled here, all other requests by `others`."""

        def answer(request: Request) -> Answer | Awaitable[Answer]:
            name, _, rest = request.path.removeprefix(NODES_PATH).partition("/")
            if rest == "running":
                return self._reports.answer(request, name)
            if others is None:
                raise NotFound("the server could not find the requested resource", details={})
            return others(request)

        return answer

    async def people(self, request: Request) -> Response:
        """Answer requests to `RESTORED_PATH`; the authorizer has granted access. Raises ApiError."""
        # Before the list: with a shared store, another server may have settled a conflict that this one still shows.
        await caught_up(self._store)
        if request.path != RESTORED_PATH:
            raise NotFound("the server could not find the requested resource", details={})
        if request.method in ("GET", "HEAD"):
            items = [_shown(each) for _, each in conflicts(self._store)]
            return Response(200, msgspec.json.encode({"kind": "RestoredConflictList", "items": items}))
        if request.method != "POST":
            raise MethodNotAllowed(NO_METHOD, details={})
        decision = decoded(request, RestoredDecision)
        return Response(200, msgspec.json.encode(await self._decide(decision, request.user)))

    async def _decide(self, decision: RestoredDecision, user: User) -> JsonObject:
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
                # Compared with the revision that was read: an adoption by another operator meanwhile wins.
                await self._store.update(RUNNING, entry.name, removed.encoded(), entry.revision)
            return {"done": f"{where} is ended on {conflict.node}"}
        if decision.action != "adopt":
            raise BadRequest(f"action must be adopt or remove, not {decision.action!r}")
        told = await adopt(self._reader, self._catalog, self._admission, conflict, user)
        # Deleted last: if the server is killed before this, the conflict stays and the adoption can be repeated.
        with suppress(Missing, Overwritten):
            await self._store.delete(RUNNING, entry.name, entry.revision)
        return {"done": told}


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
