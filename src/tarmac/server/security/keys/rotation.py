"""Rotation of one kind of key, stage by stage, and its status.

A stage begins once all servers and nodes concerned report the one before. Any server takes the next step, so a killed
server's work is continued by the next server that checks (`apps.rotating`). Retiring the old key needs a request.

    GET  /tarmac/v1/rotations/KIND    the status
    POST /tarmac/v1/rotations/KIND    {"action": "begin"} or {"action": "retire", "force": false}
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping
from typing import Final

import msgspec

from tarmac.api.rotations import ROTATIONS_PATH, RotationRequest
from tarmac.api.schema import JsonObject
from tarmac.api.status import BadRequest, MethodNotAllowed, NotFound
from tarmac.base.clock import Clock
from tarmac.base.log import log
from tarmac.http.messages import Request, Response
from tarmac.server.security.keys.keyrecords import KeyRecord, StoredRecord, with_newest_signing, with_signing_only
from tarmac.store.interface import Store

MIN_STAGE_SECONDS: Final = 15.0
"""Seconds to wait for servers that announce nothing to read the record, where there may be such servers."""

MAX_NAMED: Final = 20
_log = log("rotation")


class KeyRotation:
    """The common part of all kinds. `first` creates the record from the files if the store has none."""

    kind: str

    def __init__(self, store: Store, first: Callable[[], KeyRecord], clock: Clock) -> None:
        self.store = store
        self.clock = clock
        self.stored = StoredRecord(store, self.kind, first, clock)

    @property
    def record(self) -> KeyRecord:
        """The current record of the keys."""
        return self.stored.now

    def stage(self, record: KeyRecord) -> str:
        """Return the stage's name."""
        return "settled" if record.settled else "signing" if record.switched else "trusted"

    async def status(self) -> JsonObject:
        """Return the status."""
        record = self.record
        told = {"signing": record.signing, "trusted": list(record.keys), "since": record.since}
        return {"stage": self.stage(record), **told, "waiting": (await self.waiting(record))[:MAX_NAMED]}

    async def begin(self) -> None:
        """Add a new key to the trusted ones, unless a rotation is in progress."""
        # Decided inside the compare-and-swap: two servers that begin at once must not add two keys.
        await self.stored.change(lambda each: self.with_new_key(each) if each.settled else each)

    async def advance(self, *, force: bool = False) -> None:
        """Switch signing to the new key once all peers report that they trust it. `force`: do not wait for nodes."""
        record = self.record
        if record.switched or await self.waiting(record, force=force):
            return
        # Change only the record that was checked: a newer one may have a key that no peer trusts yet.
        if await self.stored.change(lambda each: with_newest_signing(each) if each == record else each):
            _log.info("key rotation: new key signs", what=self.kind, key=record.newest)

    async def retire(self) -> None:
        """Stop trusting all keys except the signing one."""
        # Checked again on the stored record: another server may have begun a new rotation since the request was
        # checked.
        if await self.stored.change(lambda each: with_signing_only(each) if self.retirable(each) else each):
            _log.info("key rotation: old key retired", what=self.kind)

    def retirable(self, record: KeyRecord) -> bool:
        """Return True if the old key may be retired at all, even with `force`."""
        return record.switched

    async def waiting(self, record: KeyRecord, *, force: bool = False) -> list[str]:
        """List the peers that the next stage waits for; empty if it needs a request instead."""
        if record.switched:
            return []
        return [*await self.silent(record, force=force), *self.unseen(record)]

    def unseen(self, record: KeyRecord) -> list[str]:
        """Name the servers that announce nothing, for MIN_STAGE_SECONDS after each change."""
        left = MIN_STAGE_SECONDS - (self.clock.now() - record.changed)
        # A server of an older version announces nothing; without the wait it could get a token of a key that it has not
        # read yet.
        return [f"servers that announce nothing, {left:.0f} s"] if self.store.shared and left > 0 else []

    @abstractmethod
    def with_new_key(self, record: KeyRecord) -> KeyRecord:
        """Return the record with a newly generated key."""

    @abstractmethod
    async def silent(self, record: KeyRecord, *, force: bool) -> list[str]:
        """List the peers that do not yet report trust in the newest key."""

    @abstractmethod
    async def obstacles(self) -> list[str]:
        """List the reasons against retiring the old key."""


class RotationEndpoint:
    """Serves `tarmac rotate`. Roles for the path grant access; by default only to administrators."""

    def __init__(self, *rotations: KeyRotation) -> None:
        self._rotations: Mapping[str, KeyRotation] = {each.kind: each for each in rotations}

    async def answer(self, request: Request) -> Response:
        """Answer GET and POST. Raises BadRequest, NotFound, MethodNotAllowed."""
        rotation = self._rotations.get(request.path.removeprefix(ROTATIONS_PATH))
        if rotation is None:
            raise NotFound(f"there is no such rotation: {', '.join(self._rotations)}", details={})
        obstacles: list[str] = []
        if request.method == "POST":
            obstacles = await _act(rotation, request)
        elif request.method != "GET":
            raise MethodNotAllowed("GET or POST", details={})
        return Response(200, msgspec.json.encode({**await rotation.status(), "obstacles": obstacles}))


async def _act(rotation: KeyRotation, request: Request) -> list[str]:
    try:
        asked = msgspec.json.decode(request.body, type=RotationRequest)
    except msgspec.MsgspecError as error:
        raise BadRequest(f"not a request for a rotation: {error}") from error
    if asked.action == "begin":
        await rotation.begin()
        if asked.force:
            await rotation.advance(force=True)
        return []
    obstacles = await rotation.obstacles()
    if not obstacles or (asked.force and rotation.retirable(rotation.record)):
        await rotation.retire()
        return []
    return obstacles


def named(names: list[str]) -> str:
    """Join the first names, with the number of the remaining ones."""
    more = f" and {len(names) - MAX_NAMED} more" if len(names) > MAX_NAMED else ""
    return f"{', '.join(names[:MAX_NAMED])}{more}"
