"""Events report without flooding the server or blocking callers."""

from __future__ import annotations

from typing import Any

from tarmac.api.status import ServiceUnavailable
from tarmac.base.clock import ManualClock
from tarmac.base.randomness import Randomness
from tarmac.client.client import Client
from tarmac.client.eventrecorder import BURST, MAX_BUFFERED, InvolvedObject, Recorder
from tests.client.model_server import ModelServer

POD = InvolvedObject("v1", "Pod", "p", "default", "uid-1")


class Desk:
    def __init__(self) -> None:
        self.clock = ManualClock()
        self.server = ModelServer(clock=self.clock)
        self.recorder = Recorder(Client(self.server.transport(), self.clock, Randomness(1)), "desk")

    def written(self) -> list[dict[str, Any]]:
        return [obj for place, obj in self.server.objects.items() if place.kind.plural == "events"]


async def test_an_event_names_its_object_source_and_time() -> None:
    desk = Desk()
    desk.recorder.event(POD, "Normal", "Started", "started container")
    await desk.recorder.flush()
    (event,) = desk.written()
    assert event["involvedObject"] == {
        "apiVersion": "v1",
        "kind": "Pod",
        "name": "p",
        "namespace": "default",
        "uid": "uid-1",
    }
    assert (event["source"], event["count"], event["type"]) == ({"component": "desk"}, 1, "Normal")
    assert event["firstTimestamp"] == event["lastTimestamp"] == "2027-01-15T08:00:00Z"
    assert event["metadata"]["name"].startswith("p.")


async def test_the_same_event_is_counted_and_dated() -> None:
    desk = Desk()
    for _ in range(4):
        desk.recorder.event(POD, "Warning", "BackOff", "waiting")
        await desk.recorder.flush()
        desk.clock.advance(10)
    (event,) = desk.written()
    assert (event["count"], event["firstTimestamp"], event["lastTimestamp"]) == (
        4,
        "2027-01-15T08:00:00Z",
        "2027-01-15T08:00:30Z",
    )


async def test_an_event_that_expired_on_the_server_starts_again() -> None:
    desk = Desk()
    desk.recorder.event(POD, "Warning", "BackOff", "waiting")
    await desk.recorder.flush()
    desk.server.objects.clear()
    desk.recorder.event(POD, "Warning", "BackOff", "waiting")
    await desk.recorder.flush()
    (event,) = desk.written()
    assert event["count"] == 1


async def test_many_messages_for_one_reason_are_combined() -> None:
    desk = Desk()
    for number in range(20):
        desk.recorder.event(POD, "Warning", "Failed", f"attempt {number}")
    await desk.recorder.flush()
    events = desk.written()
    assert len(events) == 11
    combined = next(each for each in events if each["count"] == 10)
    assert combined["message"] == "(combined from similar events): attempt 19"


async def test_one_object_cannot_flood_and_others_are_not_affected() -> None:
    desk = Desk()
    for number in range(40):
        desk.recorder.event(POD, "Normal", f"Reason{number}", "x")
    desk.recorder.event(POD._replace(name="other"), "Normal", "Fine", "x")
    await desk.recorder.flush()
    assert len(desk.written()) == BURST + 1
    desk.clock.advance(300)
    desk.recorder.event(POD, "Normal", "Later", "x")
    await desk.recorder.flush()
    assert len(desk.written()) == BURST + 2


async def test_recording_never_waits_or_fails() -> None:
    desk = Desk()
    desk.server.refuse(ServiceUnavailable("down"), times=5)
    for number in range(MAX_BUFFERED + 7):
        desk.recorder.event(POD._replace(name=f"p{number}"), "Normal", "Reason", "x")
    assert desk.recorder.dropped == 7
    await desk.recorder.flush()
    assert desk.recorder.dropped == 12
    assert len(desk.written()) == MAX_BUFFERED - 5
