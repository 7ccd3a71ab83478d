"""Files are replaced atomically, in the layout that programs written for Kubernetes watch and read."""

from __future__ import annotations

import base64
import os
import re
import stat
from pathlib import Path

import pytest

from tarmac.api.schema import JsonObject
from tarmac.volumes.content.downward import container_resource, pod_field
from tarmac.volumes.content.files import (
    ContentMissing,
    ContentUnsupported,
    Payload,
    ProjectedFile,
    config_map_files,
    secret_files,
)
from tarmac.volumes.writer import BadPath, write
from tests.volumes.bench import Bench, content, pod

NOON = 1_794_744_000.0  # 2026-11-15T12:00:00Z


def put(folder: Path, **files: str) -> bool:
    payload: Payload = {name.replace("__", "/"): ProjectedFile(text.encode(), 0o644) for name, text in files.items()}
    return write(str(folder), payload, NOON, lambda: None)


def test_a_file_is_a_link_through_data_to_a_dated_folder(tmp_path: Path) -> None:
    assert put(tmp_path, colour="red", sub__deep__file="x")
    dated = os.readlink(tmp_path / "..data")
    assert re.fullmatch(r"\.\.2026_11_15_12_00_00\.\w+", dated)
    assert os.readlink(tmp_path / "colour") == "..data/colour"
    assert os.readlink(tmp_path / "sub") == "..data/sub"
    assert content(f"{tmp_path}/sub/deep/file") == "x"
    assert stat.S_IMODE(os.stat(tmp_path / dated).st_mode) == 0o755


def test_the_same_files_are_not_written_again(tmp_path: Path) -> None:
    put(tmp_path, colour="red")
    before = os.readlink(tmp_path / "..data")
    assert not put(tmp_path, colour="red")
    assert os.readlink(tmp_path / "..data") == before


def test_a_change_replaces_the_whole_set_and_leaves_no_old_one(tmp_path: Path) -> None:
    put(tmp_path, colour="red", sub__a="1")
    with open(tmp_path / "colour") as opened:
        assert put(tmp_path, colour="blue", other="2")
        assert opened.read() == "red"
    assert content(f"{tmp_path}/colour") == "blue"
    assert sorted(os.listdir(tmp_path)) == sorted([os.readlink(tmp_path / "..data"), "..data", "colour", "other"])


def test_an_interrupted_write_is_finished_or_removed(tmp_path: Path) -> None:
    put(tmp_path, colour="red")
    os.mkdir(tmp_path / "..2020_01_01_00_00_00.half")
    os.symlink("..2020_01_01_00_00_00.half", tmp_path / "..data_tmp")
    os.unlink(tmp_path / "colour")
    assert not put(tmp_path, colour="red")
    assert content(f"{tmp_path}/colour") == "red"
    assert len(os.listdir(tmp_path)) == 3
    os.symlink("nowhere", tmp_path / "..data_tmp")
    assert put(tmp_path, colour="blue")
    assert content(f"{tmp_path}/colour") == "blue"


def test_ownership_is_set_before_anybody_sees_the_files(tmp_path: Path) -> None:
    put(tmp_path, colour="red")
    seen: list[str] = []
    payload: Payload = {"colour": ProjectedFile(b"blue", 0o600)}
    write(str(tmp_path), payload, NOON, lambda: seen.append(content(f"{tmp_path}/colour")))
    assert seen == ["red"]
    assert stat.S_IMODE(os.stat(tmp_path / "colour").st_mode) == 0o600


@pytest.mark.parametrize("path", ["", "/absolute", "../out", "in/../out", "..data", "..hidden/file", "x" * 256])
def test_paths_that_lead_elsewhere_are_refused(tmp_path: Path, path: str) -> None:
    with pytest.raises(BadPath, match="invalid path"):
        write(str(tmp_path), {path: ProjectedFile(b"", 0o644)}, NOON, lambda: None)
    assert os.listdir(tmp_path) == []


def test_items_choose_keys_paths_and_modes() -> None:
    obj: JsonObject = {"data": {"a": "1", "b": "2"}, "binaryData": {"c": base64.b64encode(b"\xff\x00").decode()}}
    items = [{"key": "a", "path": "sub/a"}, {"key": "c", "path": "c", "mode": 0o400}]
    found = config_map_files(obj, {"name": "x", "items": items}, 0o644)
    assert found == {"sub/a": ProjectedFile(b"1", 0o644), "c": ProjectedFile(b"\xff\x00", 0o400)}
    assert set(config_map_files(obj, {"name": "x"}, 0o644)) == {"a", "b", "c"}


def test_a_missing_key_is_told_unless_it_is_optional() -> None:
    source: JsonObject = {"secretName": "x", "items": [{"key": "no", "path": "no"}]}
    with pytest.raises(ContentMissing, match="references non-existent secret key: no"):
        secret_files({"data": {}}, source, "x", 0o644)
    assert secret_files({"data": {}}, {**source, "optional": True}, "x", 0o644) == {}


def test_a_secret_does_not_show_when_printed() -> None:
    assert "hunter2" not in repr(ProjectedFile(b"hunter2", 0o600))


def test_fields_of_a_pod_are_written_as_kubernetes_writes_them() -> None:
    subject = pod()
    assert pod_field(subject, "metadata.labels") == 'app="web"\ntier="a\\"b"'
    assert pod_field(subject, "metadata.labels['app']") == "web"
    assert pod_field(subject, "metadata.annotations['none']") == ""
    assert pod_field(subject, "metadata.uid") == subject["metadata"]["uid"]
    subject["metadata"]["annotations"] = {"text": "a\nb\té\x00\u200b"}
    assert pod_field(subject, "metadata.annotations") == 'text="a\\nb\\té\\x00\\u200b"'
    for path in ("spec.nodeName", "metadata.name['x']", "metadata.labels['not a key']"):
        with pytest.raises(ContentUnsupported):
            pod_field(subject, path)


@pytest.mark.parametrize(
    ("resource", "divisor", "text"),
    [
        ("limits.memory", "1Mi", "64"),
        ("limits.cpu", "1m", "2000"),
        ("requests.cpu", "1", "0"),
        ("limits.memory", "0", str(64 << 20)),
        ("limits.memory", "1Gi", "1"),
    ],
)
def test_resources_are_rounded_up_and_open_limits_are_the_nodes(resource: str, divisor: str, text: str) -> None:
    reference = {"containerName": "main", "resource": resource, "divisor": divisor}
    assert container_resource(pod(), reference, {"cpu": "2", "memory": "1Gi"}) == text


async def test_a_group_may_read_what_is_projected(bench: Bench) -> None:
    if os.geteuid() != 0:
        pytest.skip("giving files to a group needs root")
    bench.add_secret("keys", key=b"1")
    token = {"serviceAccountToken": {"path": "token"}}
    sources = [{"secret": {"name": "keys", "items": [{"key": "key", "path": "key", "mode": 0o400}]}}, token]
    volume = {"name": "keys", "projected": {"sources": sources}}
    path = await bench.path(volume, securityContext={"fsGroup": 4321, "runAsUser": 1234})
    assert (os.stat(f"{path}/key").st_gid, stat.S_IMODE(os.stat(f"{path}/key").st_mode)) == (4321, 0o440)
    found = os.stat(f"{path}/token")
    assert (found.st_uid, found.st_gid, stat.S_IMODE(found.st_mode)) == (1234, 4321, 0o640)


async def test_folders_for_mounts_inside_a_projected_volume_are_made(bench: Bench) -> None:
    bench.add_config_map("settings", colour="red")
    config, inner = {"name": "config", "configMap": {"name": "settings"}}, {"name": "inner", "emptyDir": {}}
    subject = pod(config, inner)
    subject["spec"]["containers"][0]["volumeMounts"] = [
        {"name": "config", "mountPath": "/etc/app"},
        {"name": "inner", "mountPath": "/etc/app/cache/deep"},
    ]
    mounted = await bench.volumes.mount(subject)
    assert os.path.isdir(f"{mounted['config'].path}/cache/deep")
    await bench.volumes.refresh(subject)
    assert os.path.isdir(f"{mounted['config'].path}/cache/deep")
