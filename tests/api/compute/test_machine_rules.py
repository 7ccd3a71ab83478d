"""Rules of virtual machines and of their cloud-init data: errors with their field and the remedy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import yaml

from tarmac.api.compute.validation.cloudconfig import UnreadableCloudConfig, top_level_keys
from tests.api.compute.making import (
    SPEC,
    N,
    R,
    Row,
    T,
    V,
    World,
    causes,
    edited,
    errors_of,
    identified,
    machines,
    resource,
)

KEYS = "spec.template.metadata.annotations"
KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIAABAgMEBQYHCAkKCwwNDg8QERITFBUWFxgZGhscHR4f a@b"
INIT = f"{V}.cloudInit"
IMAGE = f"{SPEC}.populator.image.name"
SIZE = f"{SPEC}.resources.requests[storage]"
DISK = {
    "template": {
        "spec": {"populator": {"filesystem": {"type": "ext4"}}, "resources": {"requests": {"storage": "10Gi"}}}
    }
}


def custom(memory: str) -> dict[str, Any]:
    return {R: {"instanceType": "datumcloud/d1-custom", "requests": {"cpu": "1", "memory": memory}}}


def disks(count: int) -> dict[str, Any]:
    more = [{"name": f"d{index}"} for index in range(count)]
    boot = machines()["spec"]["template"]["spec"]["volumes"][0]
    return {
        f"{V}.volumeAttachments": [{"name": "boot"}, *more],
        f"{T}.volumes": [boot, *({**each, "disk": DISK} for each in more)],
    }


def volume(name: str, *attached: dict[str, Any], **source: Any) -> dict[str, Any]:
    attachments = attached or ({"name": name},)
    return {f"{T}.volumes[1]": {"name": name, **source}, f"{V}.volumeAttachments": [{"name": "boot"}, *attachments]}


def interfaces(count: int) -> dict[str, Any]:
    return {N: [{"network": "default"} for _ in range(count)]}


def user_data(text: str) -> dict[str, Any]:
    return {INIT: {"userData": text}}


def probe(kind: str, **handler: Any) -> dict[str, Any]:
    return {f"{V}.{kind}": handler, f"{V}.ports": [{"name": "ssh", "port": 22}]}


RULES: list[Row] = [
    ("user data of 64 KiB", user_data("#!" + "x" * 65534), []),
    ("user data of 64 KiB and a byte", user_data("#!" + "x" * 65535), [f"TooLong {INIT}.userData"]),
    ("bytes, not characters", user_data("#!" + "é" * 40000), [f"TooLong {INIT}.userData"]),
    (
        "both together",
        {INIT: {"userData": "#!" + "x" * 40000, "networkData": "x" * 40000}},
        [f"TooLong {INIT}.networkData"],
    ),
    ("nothing", {INIT: {"userData": None, "networkData": None}}, []),
    ("half a character", user_data("#!\ud800"), []),
    ("a first line that nobody knows", user_data("packages: []\n"), [f"Invalid {INIT}.userData"]),
    ("not YAML", user_data("#cloud-config\na: [\n"), [f"Invalid {INIT}.userData"]),
    ("a template is not read as YAML", user_data("## template: jinja\n#cloud-config\n{% if"), []),
    ("an archive is not a cloud-config", user_data("#cloud-config-archive\n- a\n"), []),
    ("a script", user_data("#!/bin/sh\ntrue\n"), []),
    ("MIME", user_data("Content-Type: multipart/mixed; boundary=x\n"), []),
    ("ten minutes to shut down", {f"{V}.terminationGracePeriodSeconds": 600}, []),
    ("no time to shut down", {f"{V}.terminationGracePeriodSeconds": 0}, []),
    (
        "more than ten minutes",
        {f"{V}.terminationGracePeriodSeconds": 601},
        [f"Invalid {V}.terminationGracePeriodSeconds"],
    ),
    (
        "less than no time",
        {f"{V}.terminationGracePeriodSeconds": -1},
        [f"Invalid {V}.terminationGracePeriodSeconds"],
    ),
    ("a reserved volume", volume("tarmac-cloud-init", disk=DISK), [f"Invalid {T}.volumes[1].name"]),
    ("little memory", custom("127Mi"), [f"Invalid {R}.requests[memory]"]),
    ("a part of a Mi", custom("200000k"), [f"Invalid {R}.requests[memory]"]),
    ("the least memory", custom("128Mi"), []),
    ("24 disks", disks(23), []),
    ("25 disks", disks(24), [f"TooMany {V}.volumeAttachments"]),
    ("8 interfaces", interfaces(8), []),
    ("9 interfaces", interfaces(9), [f"TooMany {N}"]),
    ("memory as a volume", volume("fast", memory={}), [f"Forbidden {V}.volumeAttachments[1].name"]),
    (
        "one disk twice",
        volume("data", {"name": "data"}, {"name": "data"}, disk=DISK),
        [f"Duplicate {V}.volumeAttachments[2].name"],
    ),
    (
        "a mount of the platform's",
        volume("data", {"name": "data", "mountPath": "/.tarmac/x"}, disk=DISK),
        [f"Invalid {V}.volumeAttachments[1].mountPath"],
    ),
    (
        "a mount that would be two lines",
        volume("data", {"name": "data", "mountPath": "/a\n/b"}, disk=DISK),
        [f"Invalid {V}.volumeAttachments[1].mountPath"],
    ),
    ("a ConfigMap as a device", volume("settings", configMap={"name": "settings"}), []),
    ("exec", probe("readinessProbe", exec={"command": ["true"]}), [f"Forbidden {V}.readinessProbe.exec"]),
    ("a named port", probe("livenessProbe", tcpSocket={"port": "ssh"}), []),
    (
        "two questions in one",
        probe("startupProbe", tcpSocket={"port": 22}, httpGet={"port": 22}),
        [f"Forbidden {V}.startupProbe.tcpSocket"],
    ),
    (
        "a host of one's own",
        probe("readinessProbe", httpGet={"port": 80, "host": "10.0.0.1"}),
        [f"Forbidden {V}.readinessProbe.httpGet.host"],
    ),
    ("an image that nobody knows", {IMAGE: "acme/os"}, [f"NotSupported {IMAGE}"]),
    ("an image that may not be used", {IMAGE: "gone"}, [f"Invalid {IMAGE}"]),
    ("the object's own name", {IMAGE: "tarmac-tiny"}, []),
    ("a disk as small as its image", {IMAGE: "tarmac/tiny", f"{SPEC}.resources.requests.storage": "1Gi"}, []),
    ("smaller than its image", {f"{SPEC}.resources.requests.storage": "24Gi"}, [f"Invalid {SIZE}"]),
]


@pytest.mark.parametrize(("edits", "expected"), identified(RULES))
def test_machines(edits: dict[str, Any], expected: list[str]) -> None:
    assert causes(machines(edits), lookup=World()) == expected


USERS = [("ubuntu", True), ("_x-9", True), ("a" * 32, True), ("a" * 33, False), ("Root", False), ("9a", False)]


@pytest.mark.parametrize(("user", "accepted"), [*USERS, ("a b", False), ("ö", False)])
def test_users_of_ssh_keys_have_unix_names(user: str, accepted: bool) -> None:
    found = causes(machines({KEYS: {"compute.datumapis.com/ssh-keys": f"{user}:{KEY}"}}))
    assert found == ([] if accepted else ["Invalid spec.template.annotations[compute.datumapis.com/ssh-keys][0]"])


def detail(edits: dict[str, Any]) -> str:
    (error,) = errors_of(machines(edits), lookup=World())
    return error.detail


def test_refusals_say_what_would_be_accepted() -> None:
    assert '"tarmac-tiny"' in detail({IMAGE: "acme/os"})
    assert detail({IMAGE: "gone"}) == "is disabled; use tarmac-tiny"
    assert "#cloud-config, #!, #include" in detail(user_data("packages: []"))
    assert detail(user_data("#cloud-config\na:\n  - b: [\n")).startswith("line 4, column 1: ")
    assert "use tcpSocket, httpGet or grpc" in detail(probe("readinessProbe", exec={"command": ["true"]}))
    assert "at least 128Mi" in detail(custom("64Mi"))


def test_a_stored_image_and_size_are_not_refused_for_what_the_catalogue_has_become() -> None:
    stored = machines({IMAGE: "gone", f"{SPEC}.resources.requests.storage": "20Gi"})
    assert causes(edited(stored, {"spec.paused": True}), lookup=World(), old=stored) == []
    smaller = edited(stored, {f"{SPEC}.resources.requests.storage": "19Gi"})
    assert causes(smaller, lookup=World(), old=stored) == [f"Invalid {SIZE}"]
    lost = machines({IMAGE: "never/was"})
    assert causes(edited(lost, {"spec.paused": True}), lookup=World(), old=lost) == []


def warnings(edits: dict[str, Any]) -> list[str]:
    strategy = resource("Workload", World()).strategy
    obj = machines({KEYS: {"compute.datumapis.com/ssh-keys": f"ubuntu:{KEY}\nroot:{KEY}"}, **edits})
    strategy.normalise(obj)
    return strategy.warnings(obj, None)


def test_probable_mistakes_of_machines_give_a_warning() -> None:
    assert warnings({}) == []
    (users,) = warnings(user_data("#cloud-config\nusers: [default]\n"))
    assert users.endswith("so the annotation's keys for ubuntu, root are not installed")
    (addresses,) = warnings({INIT: {"networkData": "version: 2\n"}})
    assert addresses.endswith("so the instance's addresses must be set by it")
    (mute,) = warnings({IMAGE: "mute"})
    assert "accepts none" in mute
    (old,) = warnings({IMAGE: "old"})
    assert old.endswith('"old" is deprecated; use tarmac-tiny')
    (nobody,) = warnings({KEYS: {}})
    assert "nobody can log in" in nobody


READ: list[tuple[str, list[str]]] = [
    ("#cloud-config\n{}\n", []),
    ("#cloud-config\na: 1\nb: [c, {d: e}]\nf: {g: h}\n", ["a", "b", "f"]),
    ("#cloud-config\n? [x]\n: y\nb: &c 1\nd: *c\n", ["b", "d"]),
    ("#cloud-config\na: " + "[" * 19 + "]" * 19, ["a"]),
    ("#cloud-config\na: !!binary aGk=\nb: !!str 1\n", ["a", "b"]),
]


@pytest.mark.parametrize(("text", "keys"), READ)
def test_a_cloud_config_is_read(text: str, keys: list[str]) -> None:
    assert top_level_keys(text) == keys


UNREADABLE = {
    "nothing at all": "#cloud-config\n",
    "a list": "#cloud-config\n- a\n",
    "two documents": "#cloud-config\na: 1\n---\nb: 2\n",
    "too deep": "#cloud-config\na: " + "[" * 20 + "]" * 20,
    "far too deep": "#cloud-config\na: " + "[" * 30000,
    "too many aliases": "#cloud-config\na: &x 1\nb: [" + "*x, " * 101 + "]",
    "an unknown alias": "#cloud-config\na: *x\n",
    "a tag that runs code": "#cloud-config\na: !!python/object/apply:os.system [id]\n",
    "a tag of one's own": "#cloud-config\na: !mine b\n",
    "too many values": "#cloud-config\na: [" + "1," * 30000 + "]",
    "too many directives": "#cloud-config\n" + "".join(f"%TAG !a{n}! x:\n" for n in range(3000)) + "---\na: b\n",
    "a control character": "#cloud-config\na: \x01\n",
    "a lone surrogate": "#cloud-config\na: \udc80\n",
}


@pytest.mark.parametrize("text", UNREADABLE.values(), ids=UNREADABLE.keys())
def test_unreadable_cloud_config_is_refused(text: str) -> None:
    with pytest.raises(UnreadableCloudConfig):
        top_level_keys(text)


@pytest.mark.parametrize(
    "make", [lambda n: "#cloud-config\na: [" + "1," * n, lambda n: "#cloud-config\n" + "a: b\n" * n]
)
def test_refusing_costs_what_is_read_until_then(make: Callable[[int], str], monkeypatch: pytest.MonkeyPatch) -> None:
    events = 0

    class Counting(yaml.CSafeLoader):
        def get_event(self) -> Any:
            nonlocal events
            events += 1
            return super().get_event()

    monkeypatch.setattr(yaml, "CSafeLoader", Counting)
    with pytest.raises(UnreadableCloudConfig):
        top_level_keys(make(1_000_000))
    assert events <= 10_000
