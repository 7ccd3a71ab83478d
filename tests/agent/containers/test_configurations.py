"""Security, resources and images, as the runtime receives them."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

import pytest

from tarmac.agent.containers.credentials import credentials_for, repository, with_tag
from tarmac.agent.containers.security import SecurityRefused, container_security, sandbox_security
from tarmac.agent.containers.terminationmessages import termination_message
from tarmac.agent.model.pod import AgentPod
from tarmac.api.schema import JsonObject
from tarmac.runtimes.interface import Image, LinuxSecurity
from tarmac.volumes.fake import FakeSources


def pod(*containers: JsonObject, **spec: Any) -> AgentPod:
    return AgentPod(
        {"metadata": {"name": "w", "namespace": "n", "uid": "u"}, "spec": {"containers": list(containers), **spec}}
    )


def image(user: int | None = None, username: str = "") -> Image:
    return Image("sha256:1", (), (), 1, user, username)


def secured(container: JsonObject, of_pod: JsonObject | None = None, made_of: Image | None = None) -> LinuxSecurity:
    whole = pod(container, securityContext=of_pod or {})
    return container_security(whole, container, made_of or image(), Path("/profiles"), seccomp_default=False)


def test_a_container_s_word_counts_before_its_pod_s() -> None:
    of_pod = {"runAsUser": 1, "runAsGroup": 2, "fsGroup": 9, "supplementalGroups": [7]}
    own = {
        "runAsUser": 5,
        "readOnlyRootFilesystem": True,
        "allowPrivilegeEscalation": False,
        "capabilities": {"add": ["NET_ADMIN"], "drop": ["ALL"]},
        "seccompProfile": {"type": "RuntimeDefault"},
    }
    found = secured({"name": "c", "securityContext": own}, of_pod)
    assert (found.user, found.group) == (5, 2)
    assert found.supplemental_groups == (9, 7)
    assert found.read_only_root
    assert found.no_new_privileges
    assert (found.add_capabilities, found.drop_capabilities) == (("NET_ADMIN",), ("ALL",))
    assert found.seccomp == "RuntimeDefault"
    assert "/proc/kcore" in found.masked_paths
    assert "/proc/sys" in found.read_only_paths
    unmasked = secured({"name": "c", "securityContext": {"procMount": "Unmasked"}})
    assert (unmasked.masked_paths, unmasked.read_only_paths, unmasked.seccomp) == ((), (), "Unconfined")


@pytest.mark.parametrize(
    ("stated", "drop"),
    [
        ({}, ("NET_RAW",)),
        ({"capabilities": {"drop": ["KILL"]}}, ("KILL", "NET_RAW")),
        ({"capabilities": {"drop": ["NET_RAW"]}}, ("NET_RAW",)),
        ({"capabilities": {"drop": ["ALL"]}}, ("ALL",)),
        ({"capabilities": {"add": ["NET_RAW"]}}, ()),
        ({"privileged": True}, ()),
    ],
)
def test_raw_sockets_are_for_who_asks(stated: JsonObject, drop: tuple[str, ...]) -> None:
    container = {"name": "c", "securityContext": stated}
    for raw, expected in ((False, drop), (True, tuple((stated.get("capabilities") or {}).get("drop") or ()))):
        told = container_security(
            pod(container), container, image(), Path("/profiles"), seccomp_default=True, raw_sockets=raw
        )
        assert told.drop_capabilities == expected


def test_the_image_says_who_runs_if_nobody_else_does() -> None:
    assert secured({"name": "c"}, made_of=image(1000)).user == 1000
    assert secured({"name": "c"}, made_of=image(username="app")).username == "app"
    assert secured({"name": "c"}, {"runAsUser": 3}, image(username="app")).username == ""


@pytest.mark.parametrize(
    ("own", "made_of", "message"),
    [
        ({"runAsUser": 0}, image(5), "container's runAsUser breaks non-root policy"),
        ({}, image(0), "container has runAsNonRoot and image will run as root"),
        ({}, image(), "container has runAsNonRoot and image will run as root"),
        (
            {},
            image(username="app"),
            "container has runAsNonRoot and image has non-numeric user (app), cannot verify user is non-root",
        ),
    ],
)
def test_root_is_refused_where_it_must_not_be(own: JsonObject, made_of: Image, message: str) -> None:
    with pytest.raises(SecurityRefused) as caught:
        secured({"name": "c", "securityContext": {"runAsNonRoot": True, **own}}, made_of=made_of)
    assert str(caught.value) == f'{message} (pod: "w_n(u)", container: c)'


def test_profiles_stay_in_their_folder() -> None:
    def with_profile(path: str) -> LinuxSecurity:
        profile = {"type": "Localhost", "localhostProfile": path}
        return secured({"name": "c", "securityContext": {"seccompProfile": profile}})

    assert with_profile("mine.json").seccomp_path == "/profiles/mine.json"
    with pytest.raises(SecurityRefused):
        with_profile("../../etc/passwd")


def test_a_sandbox_is_as_privileged_as_its_most_privileged_container() -> None:
    plain: JsonObject = {"name": "a"}
    strong: JsonObject = {"name": "b", "securityContext": {"privileged": True}}
    assert not sandbox_security(pod(plain)).privileged
    shared = sandbox_security(pod(plain, strong, hostPID=True, shareProcessNamespace=True))
    assert shared.privileged
    assert shared.host_pid
    assert shared.share_processes
    assert shared.seccomp == "RuntimeDefault"


def test_groups_are_strict_for_the_whole_pod() -> None:
    container: JsonObject = {"name": "a"}
    for policy, strict in (("Strict", True), ("Merge", False)):
        of_pod = {"supplementalGroupsPolicy": policy}
        assert sandbox_security(pod(container, securityContext=of_pod)).strict_groups is strict
        assert secured(container, of_pod).strict_groups is strict


def test_names_of_images() -> None:
    assert with_tag("app") == "app:latest"
    assert with_tag("reg:5000/app") == "reg:5000/app:latest"
    assert with_tag("app@sha256:1") == "app@sha256:1"
    assert repository("app:1") == "docker.io/library/app"
    assert repository("me/app") == "docker.io/me/app"
    assert repository("index.docker.io/me/app") == "docker.io/me/app"
    assert repository("reg:5000/me/app:1") == "reg:5000/me/app"


async def test_the_most_specific_credential_comes_first() -> None:
    config = b"""{"auths": {
        "https://index.docker.io/v1/": {"username": "hub", "password": "1"},
        "example.com": {"username": "all", "password": "2"},
        "example.com/team": {"username": "team", "password": "3"},
        "*.example.org": {"username": "any", "password": "4"}}}"""
    sources = FakeSources(secrets={"n/s": {"data": {".dockerconfigjson": base64.b64encode(config).decode()}}})
    whole = pod(imagePullSecrets=[{"name": "s"}, {"name": "missing"}])

    async def names(image: str) -> list[str]:
        return [each.username for each in await credentials_for(image, whole, sources)]

    assert await names("example.com/team/app:1") == ["team", "all"]
    assert await names("example.com/teamwork/app:1") == ["all"]
    assert await names("busybox") == ["hub"]
    assert await names("eu.example.org/app") == ["any"]
    assert await names("a.b.example.org/app") == []


def test_last_words_are_cut_to_size(tmp_path: Path) -> None:
    said = tmp_path / "said"
    said.write_text("x" * 5000)
    assert len(termination_message(said, None, False)) == 4096
    log = tmp_path / "log"
    log.write_text("".join(f"2026-01-01T00:00:00Z stdout F line {n}\n" for n in range(200)))
    said.write_text("")
    lines = termination_message(said, log, True).splitlines()
    assert len(lines) == 80
    assert lines[-1] == "line 199"
    assert termination_message(tmp_path / "none", None, True) == ""
