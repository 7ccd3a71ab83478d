"""Pull secrets that are malformed or expensive to match."""

from __future__ import annotations

import base64
import json
import time
from typing import Any, cast

import pytest

from tarmac.agent.containers.credentials import credentials_for
from tarmac.agent.model.pod import AgentPod
from tarmac.api.schema import JsonObject
from tarmac.volumes.interface import Sources

POD = AgentPod(
    {
        "metadata": {"name": "web", "namespace": "shop", "uid": "u"},
        "spec": {"containers": [], "imagePullSecrets": [{"name": "pull"}]},
    }
)


class OneSecret:
    """A source with one secret."""

    def __init__(self, content: Any, key: str = ".dockerconfigjson") -> None:
        text = content if isinstance(content, bytes) else json.dumps(content).encode()
        self._secret: JsonObject = {"data": {key: base64.b64encode(text).decode()}}

    async def secret(self, namespace: str, name: str) -> JsonObject:
        return self._secret


async def found(content: Any, image: str = "registry.example.com/app", **options: str) -> list[tuple[str, str]]:
    sources = cast("Sources", OneSecret(content, **options))
    return [(each.username, each.password) for each in await credentials_for(image, POD, sources)]


@pytest.mark.parametrize(
    "content",
    [b"\xff", b"[" * 100_000, [], {"auths": []}, {"auths": {"registry.example.com": None}}, {"auths": "x"}, 7,
     {"auths": {"registry.example.com": {"username": 7}}}, {"auths": {"x" * 100_000: {"username": "u"}}}],
)  # fmt: skip
async def test_malformed_pull_secrets_are_skipped(content: Any) -> None:
    assert await found(content) == []
    assert await found(content, key=".dockercfg") == []


async def test_a_pair_that_is_no_base64_is_nobody() -> None:
    assert await found({"auths": {"registry.example.com": {"auth": "é"}}}) == [("", "")]


@pytest.mark.parametrize(
    ("server", "fits"),
    [("registry.example.com", True), ("*.example.com", True), ("reg*ry.*.com", True), ("*.*.*", True),
     ("r*e*g*y.example.com", True), ("registry.*", False), ("*x.example.com", False),
     ("registryy*.example.com", False)],
)  # fmt: skip
async def test_stars_stand_for_anything_within_a_part(server: str, fits: bool) -> None:
    assert bool(await found({"auths": {server: {"username": "u"}}})) is fits


async def test_ten_thousand_patterns_do_not_hold_the_loop() -> None:
    patterns = {f"*{number}*a*a*a*a*a.example.com": {"username": "u"} for number in range(10_000)}
    taken: list[float] = []
    for _ in range(3):  # the best of three, since other processes share the machine
        start = time.thread_time()
        await found({"auths": patterns}, f"{'a' * 60}.example.com/app")
        taken.append(time.thread_time() - start)
    assert min(taken) < 0.05
