"""Retried errors, and the exceptions of all other ones."""

from __future__ import annotations

import asyncio

import pytest

from tarmac.api import status
from tarmac.base.clock import ManualClock
from tarmac.base.randomness import Randomness
from tarmac.client.client import Client
from tarmac.client.envelope import is_newer
from tarmac.client.errors import GarbledReply, api_error, exceeds_quota, retry_after
from tarmac.client.local import LocalTransport
from tarmac.client.requests import MAX_ATTEMPTS
from tarmac.client.targets.untyped import CONFIG_MAPS
from tests.client.model_server import Answer, ModelServer


async def _let_time_pass(clock: ManualClock, seconds: int) -> None:
    for _ in range(seconds):
        for _ in range(5):
            await asyncio.sleep(0)
        clock.advance(1)


async def test_a_server_that_says_when_to_come_back_is_believed() -> None:
    clock = ManualClock()
    server = ModelServer(clock=clock)
    server.put("configmaps", "a")
    server.refuse(status.TooManyRequests("slow down", headers=[("Retry-After", "3")]), times=2)
    maps = Client(server.transport(), clock, Randomness(1)).resource(CONFIG_MAPS)
    async with asyncio.TaskGroup() as group:
        getting = group.create_task(maps.get("a", "default"))
        await _let_time_pass(clock, 3)
        assert len(server.requests) == 1, "not earlier than requested"
        await _let_time_pass(clock, 7)
    assert getting.result()["metadata"]["name"] == "a"
    assert len(server.requests) == 3


async def test_patience_is_bounded() -> None:
    clock = ManualClock()
    server = ModelServer(clock=clock)
    server.refuse(status.ServiceUnavailable("later", details={"retryAfterSeconds": 1}), times=100)
    maps = Client(server.transport(), clock, Randomness(1)).resource(CONFIG_MAPS)
    async with asyncio.TaskGroup() as group:
        getting = group.create_task(_fails(maps.get("a", "default")))
        await _let_time_pass(clock, 60)
    assert isinstance(getting.result(), status.ServiceUnavailable)
    assert len(server.requests) == MAX_ATTEMPTS


async def _fails(call: object) -> BaseException:
    with pytest.raises(status.ApiError) as caught:
        await call  # pyright: ignore[reportGeneralTypeIssues] a coroutine
    return caught.value


@pytest.mark.parametrize(
    "error", [status.ServiceUnavailable("down"), status.InternalError("bug"), status.Conflict("no")]
)
async def test_errors_without_retry_after_are_not_retried(error: status.ApiError) -> None:
    server = ModelServer()
    server.refuse(error)
    with pytest.raises(type(error)):
        await Client(server.transport(), ManualClock()).resource(CONFIG_MAPS).get("a", "default")
    assert len(server.requests) == 1


def test_errors_are_known_by_reason_and_else_by_code() -> None:
    taken = status.AlreadyExists("taken", details={"name": "a"})
    read = api_error(409, taken.encoded())
    assert isinstance(read, status.AlreadyExists)
    assert (read.message, read.details) == ("taken", {"name": "a"})
    assert isinstance(api_error(404, b"404 page not found"), status.NotFound)
    assert isinstance(api_error(410, b""), status.Gone)
    teapot = api_error(418, b"<html>short and stout</html>")
    assert (type(teapot), teapot.http_code) == (status.ApiError, 418)


def test_a_quota_that_has_no_room_is_known_on_every_server() -> None:
    ours = status.Forbidden("no room", details={"causes": [{"reason": status.QUOTA_EXCEEDED, "field": "pods"}]})
    kubernetes = status.Forbidden(
        'pods "a" is forbidden: exceeded quota: q, requested: pods=1, used: pods=1, limited: 1'
    )
    assert [exceeds_quota(api_error(403, each.encoded())) for each in (ours, kubernetes)] == [True, True]
    assert not exceeds_quota(status.Forbidden("pods is forbidden: User cannot create it"))
    assert not exceeds_quota(status.Conflict("exceeded quota: q"))


async def test_an_answer_that_is_not_the_promised_one_is_garbled() -> None:
    for body in (b"<html>", b"[]", b'{"metadata": 3}'):
        maps = Client(LocalTransport(lambda *_, body=body: Answer(200, body))).resource(CONFIG_MAPS)  # pyright: ignore[reportUnknownLambdaType]
        with pytest.raises(GarbledReply):
            await maps.list("default")


def test_versions_compare_as_numbers() -> None:
    assert is_newer("10", "9")
    assert not is_newer("9", "9")
    assert not is_newer("9", "10")
    assert is_newer("opaque", "9")


@pytest.mark.parametrize("version", ["²", "٣", "9" * 5000, ""])
def test_a_version_that_is_no_decimal_number_counts_as_new(version: str) -> None:
    assert is_newer(version, "9")
    assert is_newer("9", version)


@pytest.mark.parametrize("value", ["²", "9" * 5000, "-1", "soon"])
def test_a_wait_that_is_no_number_of_seconds_is_none(value: str) -> None:
    assert retry_after(status.TooManyRequests("slow down", headers=[("Retry-After", value)])) is None
