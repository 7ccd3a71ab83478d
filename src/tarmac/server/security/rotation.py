"""A rotation of one kind of key, stage by stage, and the question how far it has come.

Each stage is entered when everybody concerned shows the one before. Any server takes the step that is due, and one that
is killed is replaced by the next to look (`apps.rotating`); retiring the old key waits for somebody to ask for it.

    GET  /tarmac/v1/rotations/KIND    how things stand
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
from tarmac.server.security.keyrecords import KeyRecord, StoredRecord, with_newest_signing, with_signing_only
from tarmac.store.interface import Store

UNSEEN: Final = 15.0
"""Seconds that servers which announce nothing have to read the record, where there may be some."""

MOST_NAMED: Final = 20
_log = log("rotation")


class Rotation:
    """What every kind has in common. `first` makes the record of the files, unless there is one."""

    kind: str

    def __init__(self, store: Store, first: Callable[[], KeyRecord], clock: Clock) -> None:
        self.store = store
        self.clock = clock
        self.stored = StoredRecord(store, self.kind, first, clock)

    @property
    def record(self) -> KeyRecord:
        """The keys as they are."""
        return self.stored.now

    def stage(self, record: KeyRecord) -> str:
        """What it is called."""
        return "settled" if record.settled else "signing" if record.switched else "trusted"

    async def status(self) -> JsonObject:
        """How things stand."""
        record = self.record
        told = {"signing": record.signing, "trusted": list(record.keys), "since": record.since}
        return {"stage": self.stage(record), **told, "waiting": (await self.waiting(record))[:MOST_NAMED]}

    async def begin(self) -> None:
        """Have a new key trusted; nothing when a rotation is under way."""
        await self.stored.change(lambda each: self.with_new_key(each) if each.settled else each)

    async def advance(self, *, force: bool = False) -> None:
        """Have the new key sign, once everybody shows that it is trusted. `force`: nodes are not waited for."""
        record = self.record
        if record.switched or await self.waiting(record, force=force):
            return
        # Only of the record that was looked at: another one may have a key that nobody trusts yet.
        if await self.stored.change(lambda each: with_newest_signing(each) if each == record else each):
            _log.info("a new key is in use", what=self.kind, key=record.newest)

    async def retire(self) -> None:
        """End whatever hangs on another key than the one that signs."""
        if await self.stored.change(lambda each: with_signing_only(each) if self.retirable(each) else each):
            _log.info("the old key is retired", what=self.kind)

    def retirable(self, record: KeyRecord) -> bool:
        """Whether the old key may go at all, whoever insists."""
        return record.switched

    async def waiting(self, record: KeyRecord, *, force: bool = False) -> list[str]:
        """Whom or what the next stage waits for; nobody when it is one that is asked for."""
        if record.switched:
            return []
        return [*await self.silent(record, force=force), *self.unseen(record)]

    def unseen(self, record: KeyRecord) -> list[str]:
        """Servers that nobody hears of, for a while after each change."""
        left = UNSEEN - (self.clock.now() - record.changed)
        return [f"servers that announce nothing, {left:.0f} s"] if self.store.shared and left > 0 else []

    @abstractmethod
    def with_new_key(self, record: KeyRecord) -> KeyRecord:
        """The record with a key that was made now."""

    @abstractmethod
    async def silent(self, record: KeyRecord, *, force: bool) -> list[str]:
        """Who does not show yet that the newest key is trusted."""

    @abstractmethod
    async def obstacles(self) -> list[str]:
        """What speaks against retiring the old key."""


class RotationEndpoint:
    """What `tarmac rotate` asks. Who may is said by roles for the path; by default administrators."""

    def __init__(self, *rotations: Rotation) -> None:
        self._rotations: Mapping[str, Rotation] = {each.kind: each for each in rotations}

    async def answer(self, request: Request) -> Response:
        """GET and POST. Raises BadRequest, NotFound, MethodNotAllowed."""
        rotation = self._rotations.get(request.path.removeprefix(ROTATIONS_PATH))
        if rotation is None:
            raise NotFound(f"there is no such rotation: {', '.join(self._rotations)}", details={})
        obstacles: list[str] = []
        if request.method == "POST":
            obstacles = await _act(rotation, request)
        elif request.method != "GET":
            raise MethodNotAllowed("GET or POST", details={})
        return Response(200, msgspec.json.encode({**await rotation.status(), "obstacles": obstacles}))


async def _act(rotation: Rotation, request: Request) -> list[str]:
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
    """Some of them, and how many more there are."""
    more = f" and {len(names) - MOST_NAMED} more" if len(names) > MOST_NAMED else ""
    return f"{', '.join(names[:MOST_NAMED])}{more}"
