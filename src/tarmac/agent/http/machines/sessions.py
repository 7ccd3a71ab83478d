"""Sessions at consoles and screens of machines, reported as events and optionally recorded."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal

from tarmac.agent.http.kubeletanswers import HttpError
from tarmac.agent.http.machines.casts import CastFacts, CastWriter
from tarmac.agent.http.machines.recordings import Recordings
from tarmac.api.schema import JsonObject
from tarmac.http.messages import Request
from tarmac.runtimes.interface import SessionRecorder, TerminalSize
from tarmac.wire.visitors import NOT_RECORDED, RECORD_HEADER, USER_HEADER, decode_user, encode_user

Kind = Literal["console", "attach", "vnc"]
RecordPodEvent = Callable[[JsonObject, str, str], None]
"""Records an event about the pod's owner: pod, reason, message."""


def visitor_headers(headers: Mapping[str, str], user: str) -> dict[str, str]:
    """Replace the headers about the user by the authenticated name; the session will be recorded."""
    kept = {name: value for name, value in headers.items() if name not in (USER_HEADER, RECORD_HEADER)}
    return {**kept, USER_HEADER: encode_user(user)}


@dataclass(frozen=True, slots=True)
class Visitor:
    """The user of a session, named by the server over a tunnel or authenticated by the node, and if it is recorded."""

    user: str
    recorded: bool

    @classmethod
    def of(cls, request: Request) -> Visitor:
        """Read the visitor from the headers. Raises HttpError without a user name: sessions are never anonymous."""
        user = decode_user(request.headers.get(USER_HEADER, ""))
        if not user:
            raise HttpError(401, "nobody said who comes")
        return cls(user, request.headers.get(RECORD_HEADER) != NOT_RECORDED)


class MachineSession:
    """Implements `SessionRecorder`: forwards to the recording, if any, and reports the end."""

    def __init__(self, recording: CastWriter | None, over: Callable[[CastWriter | None], None]) -> None:
        self._recording = recording
        self._over = over

    def output(self, data: bytes) -> None:
        if self._recording is not None:
            self._recording.output(data)

    def resized(self, size: TerminalSize) -> None:
        if self._recording is not None:
            self._recording.resized(size)

    def mark(self, text: str) -> None:
        if self._recording is not None:
            self._recording.mark(text)

    def close(self) -> None:
        if self._recording is not None:
            self._recording.close()
        self._over(self._recording)


class MachineSessions:
    """Starts sessions and counts the open ones."""

    def __init__(self, recordings: Recordings, record_event: RecordPodEvent) -> None:
        self._recordings = recordings
        self._record_event = record_event
        self.open: dict[Kind, int] = {"console": 0, "attach": 0, "vnc": 0}

    def begin(self, kind: Kind, pod: JsonObject, visitor: Visitor, session: str, keyboard: bool) -> SessionRecorder:
        """Start a session. Raises OSError if it must be recorded and cannot be."""
        recording = None
        if visitor.recorded:
            facts = CastFacts(visitor.user, session, instance_uid(pod), keyboard, kind)
            recording = self._recordings.begin(pod["metadata"]["namespace"], pod["metadata"]["name"], facts)
        # After the recording has begun, which may fail: the count of a session that never opens would not fall again.
        self.open[kind] += 1
        # Control characters in a user name could make one event look like several.
        who = "".join(each if each.isprintable() else "\ufffd" for each in visitor.user)
        what = f"{'screen' if kind == 'vnc' else 'console'} ({kind}, session {session})"
        recorded = "recorded" if visitor.recorded else "not recorded"
        self._record_event(pod, "ConsoleOpened", f"{who} is at the {what}, {recorded}")

        def over(recording: CastWriter | None) -> None:
            self.open[kind] -= 1
            if recording is not None:
                self._recordings.ended(recording)
            self._record_event(pod, "ConsoleClosed", f"{who} has left the {what}")

        return MachineSession(recording, over)


def instance_uid(pod: JsonObject) -> str:
    """Return the uid of the Instance that a pod belongs to."""
    owners = pod["metadata"].get("ownerReferences") or ()
    return next((each["uid"] for each in owners if each.get("kind") == "Instance"), "")
