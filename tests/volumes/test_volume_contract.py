"""The contract of every volume driver: mounting, idempotent repetition, and unmounting."""

from __future__ import annotations

import asyncio
import os
import socket
import stat
import threading
from pathlib import Path

import pytest

from tarmac.volumes.interface import MountedVolume, Unusable, VolumeNotReady
from tests.volumes.bench import UID, Bench, claim, content, pod, put

SCRATCH = {"name": "scratch", "emptyDir": {}}
CONFIG = {"name": "config", "configMap": {"name": "settings"}}
SECRET = {"name": "keys", "secret": {"secretName": "keys"}}
ROTATED = {"serviceAccountToken": {"path": "token", "audience": "vault", "expirationSeconds": 600}}
NAME = {"downwardAPI": {"items": [{"path": "name", "fieldRef": {"fieldPath": "metadata.name"}}]}}


async def test_an_empty_folder_is_everybodys(bench: Bench) -> None:
    path = await bench.path(SCRATCH)
    assert path == f"{bench.root}/pods/{UID}/volumes/kubernetes.io~empty-dir/scratch"
    assert stat.S_IMODE(os.stat(path).st_mode) == 0o777


async def test_mounting_again_keeps_what_is_there(bench: Bench) -> None:
    path = await bench.path(SCRATCH)
    put(f"{path}/mine", "text")
    bench.restart()
    assert await bench.path(SCRATCH) == path
    assert content(f"{path}/mine") == "text"


async def test_volumes_that_no_container_uses_are_not_made(bench: Bench) -> None:
    assert await bench.volumes.mount(pod(claim("missing"), unused=True)) == {}


async def test_a_config_map_becomes_files_that_follow_it(bench: Bench) -> None:
    bench.add_config_map("settings", colour="red", size="1")
    mounted = (await bench.mount(CONFIG))["config"]
    assert mounted.read_only
    assert content(f"{mounted.path}/colour") == "red"
    bench.add_config_map("settings", colour="blue", shape="round")
    await bench.volumes.refresh(pod(CONFIG))
    assert content(f"{mounted.path}/colour") == "blue"
    assert content(f"{mounted.path}/shape") == "round"
    assert not os.path.lexists(f"{mounted.path}/size")


async def test_a_missing_object_is_waited_for_by_name(bench: Bench) -> None:
    with pytest.raises(VolumeNotReady, match=r'^configmap "settings" not found$') as caught:
        await bench.mount(CONFIG)
    assert caught.value.volume == "config"
    bench.add_config_map("settings", colour="red")
    assert content(f"{await bench.path(CONFIG)}/colour") == "red"


async def test_an_optional_object_may_be_missing_and_come_later(bench: Bench) -> None:
    volume = {"name": "config", "configMap": {"name": "settings", "optional": True}}
    path = await bench.path(volume)
    assert not [name for name in os.listdir(path) if not name.startswith("..")]
    bench.add_config_map("settings", colour="red")
    await bench.volumes.refresh(pod(volume))
    assert content(f"{path}/colour") == "red"


async def test_a_deleted_object_leaves_its_last_files(bench: Bench) -> None:
    bench.add_secret("keys", key=b"1")
    path = await bench.path(SECRET)
    bench.sources.secrets.clear()
    with pytest.raises(VolumeNotReady, match='secret "keys" not found'):
        await bench.volumes.refresh(pod(SECRET))
    assert content(f"{path}/key") == "1"


async def test_without_a_server_what_is_there_is_used(bench: Bench) -> None:
    bench.add_secret("keys", key=b"1")
    bench.add_disk("disk")
    before = await bench.mount(SECRET, claim("disk"))
    bench.sources.away = True
    bench.restart()
    assert await bench.mount(SECRET, claim("disk")) == before
    await bench.volumes.refresh(pod(SECRET, claim("disk")))
    with pytest.raises(VolumeNotReady, match="does not answer"):
        await bench.mount({"name": "more", "secret": {"secretName": "more"}})


async def test_projected_sources_meet_in_one_folder(bench: Bench) -> None:
    bench.add_secret("keys", key=b"secret")
    bench.add_config_map("settings", colour="red")
    sources = [{"secret": {"name": "keys"}}, {"configMap": {"name": "settings"}}, NAME, ROTATED]
    volume = {"name": "all", "projected": {"sources": sources, "defaultMode": 0o440}}
    path = await bench.path(volume)
    assert [content(f"{path}/{name}") for name in ("key", "colour", "name")] == ["secret", "red", "web"]
    assert content(f"{path}/token") == "token-0/web/vault/600"
    assert stat.S_IMODE(os.stat(f"{path}/key").st_mode) == 0o440
    bench.sources.tokens += 1
    await bench.volumes.refresh(pod(volume))
    assert content(f"{path}/token") == "token-1/web/vault/600"


async def test_a_trust_bundle_is_refused_in_plain_words(bench: Bench) -> None:
    volume = {"name": "all", "projected": {"sources": [{"clusterTrustBundle": {"path": "ca", "name": "x"}}]}}
    with pytest.raises(Unusable, match="does not offer projections of the kind clusterTrustBundle"):
        await bench.mount(volume)


async def test_kinds_that_are_not_offered_are_refused_in_plain_words(bench: Bench) -> None:
    with pytest.raises(Unusable, match="volumes of the kind nfs are not offered by this node"):
        await bench.mount({"name": "share", "nfs": {"server": "far", "path": "/"}})


async def test_a_disk_keeps_its_files_from_pod_to_pod(bench: Bench) -> None:
    bench.add_disk("disk")
    path = await bench.path(claim("disk"))
    put(f"{path}/kept", "text")
    await bench.volumes.unmount(UID)
    assert content(f"{await bench.path(claim('disk'), uid='second')}/kept") == "text"


async def test_two_pods_share_a_disk(bench: Bench) -> None:
    bench.add_disk("disk")
    first, second = await bench.path(claim("disk")), await bench.path(claim("disk"), uid="second")
    put(f"{first}/shared", "text")
    assert content(f"{second}/shared") == "text"
    await bench.volumes.unmount(UID)
    assert content(f"{second}/shared") == "text"


async def test_an_unbound_claim_is_waited_for(bench: Bench) -> None:
    bench.add_disk("disk")
    del bench.sources.claims["default/disk"]["spec"]["volumeName"]
    with pytest.raises(VolumeNotReady, match='"disk" is not bound yet'):
        await bench.mount(claim("disk"))


async def test_a_folder_of_the_node_can_be_claimed(bench: Bench, tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    for source in ("local", "hostPath"):
        bench.add_disk(source)
        persistent = bench.sources.persistent_volumes[f"pv-{source}"]
        del persistent["metadata"]["annotations"], persistent["spec"]["local"]
        persistent["spec"][source] = {"path": str(tmp_path / "folder")}
        mounted = (await bench.mount(claim(source), uid=source))["data"]
        assert mounted.owned_by_pod == (source == "local")
        put(f"{mounted.path}/file", source)
        await bench.volumes.unmount(source)
        assert content(f"{tmp_path}/folder/file") == source


async def test_volumes_of_other_storage_are_refused_in_plain_words(bench: Bench) -> None:
    bench.add_disk("disk")
    persistent = bench.sources.persistent_volumes["pv-disk"]
    del persistent["metadata"]["annotations"], persistent["spec"]["local"]
    persistent["spec"]["csi"] = {"driver": "x", "volumeHandle": "y"}
    with pytest.raises(Unusable, match="persistent volumes of the kind csi are not offered by this node"):
        await bench.mount(claim("disk"))


async def test_a_disk_of_another_node_is_not_made_here(bench: Bench) -> None:
    bench.add_disk("disk", node="elsewhere")
    with pytest.raises(VolumeNotReady, match="on another node"):
        await bench.mount(claim("disk"))
    assert await bench.volumes.disks() == []


async def test_a_disk_for_one_pod_must_have_been_made_for_it(bench: Bench) -> None:
    bench.add_disk("web-data")
    volume = {"name": "data", "ephemeral": {"volumeClaimTemplate": {}}}
    with pytest.raises(Unusable, match="was not created for the pod"):
        await bench.mount(volume)
    owner = {"controller": True, "uid": UID}
    bench.sources.claims["default/web-data"]["metadata"]["ownerReferences"] = [owner]
    assert os.path.isdir(await bench.path(volume))


async def test_a_disk_is_removed_once_nobody_uses_it(bench: Bench) -> None:
    bench.add_disk("disk")
    await bench.mount(claim("disk"))
    assert await bench.volumes.disks() == ["pv-disk"]
    with pytest.raises(VolumeNotReady, match="in use"):
        await bench.volumes.remove_disk("pv-disk")
    await bench.volumes.unmount(UID)
    await bench.volumes.remove_disk("pv-disk")
    await bench.volumes.remove_disk("pv-disk")
    assert await bench.volumes.disks() == []


async def test_a_path_of_the_host_is_what_the_pod_says(bench: Bench, tmp_path: object) -> None:
    folder = f"{tmp_path}/made"
    host = {"name": "host", "hostPath": {"path": folder, "type": "DirectoryOrCreate"}}
    assert await bench.mount(host) == {"host": MountedVolume("host", folder, owned_by_pod=False)}
    assert os.path.isdir(folder)
    for sort, words in (("File", "a file"), ("Socket", "a socket file"), ("BlockDevice", "a block device")):
        with pytest.raises(VolumeNotReady, match=f"is not {words}"):
            await bench.mount({"name": "host", "hostPath": {"path": folder, "type": sort}})
    file = f"{folder}/file"
    await bench.mount({"name": "host", "hostPath": {"path": file, "type": "FileOrCreate"}})
    await bench.mount({"name": "host", "hostPath": {"path": file, "type": "File"}})
    await bench.mount({"name": "host", "hostPath": {"path": "/dev/null", "type": "CharDevice"}})
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(f"{folder}/s")
        await bench.mount({"name": "host", "hostPath": {"path": f"{folder}/s", "type": "Socket"}})
    await bench.volumes.unmount(UID)
    assert os.path.exists(file)


async def test_unmounting_leaves_nothing_and_may_be_repeated(bench: Bench) -> None:
    bench.add_config_map("settings", colour="red")
    bench.add_secret("keys", key=b"1")
    bench.add_disk("disk")
    memory = {"name": "memory", "emptyDir": {"medium": "Memory"}}
    found = await bench.mount(SCRATCH, CONFIG, SECRET, memory, claim("disk"))
    await bench.volumes.subpath(found["scratch"], "some/where", UID, "main", 0)
    await bench.volumes.unmount(UID)
    await bench.volumes.unmount(UID)
    assert not any(bench.leftovers().values())


async def test_a_sweep_takes_the_volumes_of_pods_that_are_gone(bench: Bench) -> None:
    bench.add_secret("keys", key=b"1")
    kept = await bench.path(SECRET, uid="kept")
    await bench.mount(SECRET, uid="gone")
    bench.restart()
    assert await bench.volumes.sweep({"kept"}) == ["gone"]
    assert content(f"{kept}/key") == "1"
    assert not os.path.exists(f"{bench.root}/pods/gone")


async def test_a_sweep_leaves_pods_alone_that_come_meanwhile(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    looking, go_on = threading.Event(), threading.Event()

    def slowly() -> set[str]:
        looking.set()
        go_on.wait(10)
        return {"new", "old"}

    monkeypatch.setattr(bench.medium, "mounted_pods", slowly)
    await bench.mount(SCRATCH, uid="old")
    sweeping = asyncio.create_task(bench.volumes.sweep(set()))
    await asyncio.to_thread(looking.wait, 10)
    path = await bench.path(SCRATCH, uid="new")
    go_on.set()
    assert await sweeping == ["old"]
    assert os.path.isdir(path)


async def test_work_that_was_cancelled_is_over_before_the_next_begins(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    working, go_on = threading.Event(), threading.Event()
    memory = bench.medium.memory

    def slowly(path: str, size: int | None) -> None:
        working.set()
        go_on.wait(10)
        memory(path, size)

    monkeypatch.setattr(bench.medium, "memory", slowly)
    mounting = asyncio.create_task(bench.mount({"name": "memory", "emptyDir": {"medium": "Memory"}}))
    await asyncio.to_thread(working.wait, 10)
    mounting.cancel()
    unmounting = asyncio.create_task(bench.volumes.unmount(UID))
    await asyncio.sleep(0.01)
    go_on.set()
    with pytest.raises(asyncio.CancelledError):
        await mounting
    await unmounting
    assert not any(bench.leftovers().values())


async def test_foreign_files_in_a_pods_folder_stay(bench: Bench) -> None:
    await bench.mount(SCRATCH)
    put(f"{bench.root}/pods/{UID}/etc-hosts", "127.0.0.1")
    await bench.volumes.unmount(UID)
    assert os.listdir(f"{bench.root}/pods/{UID}") == ["etc-hosts"]


async def test_an_image_is_shown_read_only(bench: Bench, tmp_path: object) -> None:
    os.makedirs(f"{tmp_path}/image")
    put(f"{tmp_path}/image/model", "weights")
    bench.sources.images["registry/model:1"] = f"{tmp_path}/image"
    mounted = (await bench.mount({"name": "model", "image": {"reference": "registry/model:1"}}))["model"]
    assert mounted.read_only
    assert content(f"{mounted.path}/model") == "weights"


async def test_a_new_disk_starts_with_an_images_files_once(bench: Bench, tmp_path: object) -> None:
    os.makedirs(f"{tmp_path}/image/etc")
    put(f"{tmp_path}/image/etc/version", "1")
    os.symlink("/etc/passwd", f"{tmp_path}/image/etc/link")
    bench.sources.images["registry/seed:1"] = f"{tmp_path}/image"
    bench.add_disk("disk")
    note = {"compute.datumapis.com/populate-from-image": "registry/seed:1"}
    bench.sources.claims["default/disk"]["metadata"]["annotations"] = note
    path = await bench.path(claim("disk"))
    assert content(f"{path}/etc/version") == "1"
    assert os.readlink(f"{path}/etc/link") == "/etc/passwd"
    os.unlink(f"{path}/etc/version")
    await bench.volumes.unmount(UID)
    assert not os.path.exists(f"{await bench.path(claim('disk'))}/etc/version")


async def test_usage_is_told_by_volume(bench: Bench) -> None:
    bench.add_secret("keys", key=b"x" * 10_000)
    path = await bench.path(SCRATCH)
    put(f"{path}/file", "x" * 100_000)
    os.link(f"{path}/file", f"{path}/again")
    await bench.mount(SECRET)
    usage = await bench.volumes.usage(UID)
    assert usage["scratch"].shared
    assert 100_000 <= usage["scratch"].used < 200_000
    assert usage["scratch"].inodes_used == 2
    assert usage["keys"].used >= 10_000
    assert usage["keys"].shared != bench.real


async def test_busy_mounts_are_let_go_lazily(bench: Bench) -> None:
    bench.add_secret("keys", key=b"1")
    path = await bench.path(SECRET)
    if not bench.real:
        bench.medium.busy.add(path)  # type: ignore[union-attr]
    held = os.open(f"{path}/key", os.O_RDONLY)
    await bench.volumes.unmount(UID)
    os.close(held)
    assert not any(bench.leftovers().values())
