"""A pod sees the files of images that it may run: pull secrets grant access, and missing rights deny it."""

from __future__ import annotations

import base64
import json
from pathlib import Path

import pytest

from tarmac.agent.containers.repositories import RepositoryAccess
from tarmac.agent.node.imageroot import image_root
from tarmac.api.schema import JsonObject
from tarmac.base.clock import ManualClock
from tarmac.client.client import Client
from tarmac.runtimes.fake import FakeRuntime, RegistryImage
from tarmac.volumes.fake import FakeSources
from tarmac.volumes.interface import SourceUnavailable
from tests.support.access import Nowhere

PRIVATE = "example.com/private:1"
OWN = "registry.tarmac.local/team-a/app:1"


def pod(**spec: object) -> JsonObject:
    return {"metadata": {"name": "viewer", "namespace": "default", "uid": "u"}, "spec": spec}


async def seen(tmp_path: Path, runtime: FakeRuntime, sources: FakeSources, image: str, viewer: JsonObject) -> str:
    """Return the error of showing an image, since tests cannot mount one."""
    access = RepositoryAccess(Client(Nowhere()), sources)
    with pytest.raises(SourceUnavailable) as error:
        async with image_root(runtime, access, "c.sock", str(tmp_path / "no-ctr"), tmp_path)(image, viewer):
            pass
    return str(error.value)


async def test_a_pull_secret_opens_a_registry_for_a_volume_too(tmp_path: Path) -> None:
    runtime, sources = FakeRuntime(ManualClock()), FakeSources()
    runtime.registry[PRIVATE] = RegistryImage(username="me", password="open sesame")
    auths = {"auths": {"example.com": {"auth": base64.b64encode(b"me:open sesame").decode()}}}
    data = {".dockerconfigjson": base64.b64encode(json.dumps(auths).encode()).decode()}
    sources.secrets["default/registry"] = {"data": data}
    assert "authorization failed" in await seen(tmp_path, runtime, sources, PRIVATE, pod())
    opened = pod(imagePullSecrets=[{"name": "registry"}])
    assert "no-ctr: No such file" in await seen(tmp_path, runtime, sources, PRIVATE, opened)


async def test_files_of_an_image_that_is_here_are_not_shown_while_nobody_says_who_may(tmp_path: Path) -> None:
    runtime = FakeRuntime(ManualClock())
    runtime.add_image(OWN)
    assert "cannot say who may pull from team-a/app" in await seen(tmp_path, runtime, FakeSources(), OWN, pod())
