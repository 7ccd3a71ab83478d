"""A kubeconfig that another user prepared does not stop `tarmac up`, and makes it write to no other file."""

from __future__ import annotations

import asyncio
import os
import stat
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

from tarmac.apps import homekubeconfig
from tarmac.apps.homekubeconfig import merge, unmerge
from tarmac.apps.layout import Layout
from tarmac.base.clock import SystemClock
from tests.attacking import TWICE
from tests.client.test_kubeconfig_merge import OWN, WORK

NOBODY = 65534
CLOCK = SystemClock()


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    data = tmp_path / "data"
    data.mkdir()
    made = Layout(data, data / "pki", data / "secrets.key", "")
    made.kubeconfig.write_text(OWN)
    return made


CONTENTS = {
    "a list": "[1]", "a text": "x", "a number": "5", "not YAML": "a: [",
    "a name that is a list": "clusters: [{name: []}]",
    "a name that is a number": "users: [{name: 5}]", "entries that are text": "contexts: [a, b]",
    "contexts that are no list": "contexts: {a: b}", "a context that is text": "contexts: [{name: a, context: x}]",
    "extensions that are text": "contexts: [{name: a, context: {extensions: x}}]",
    "an extension that is a list":
        "contexts: [{name: a, context: {extensions: [{name: tarmac.dev/up, extension: []}]}}]",
    "a current context that is a list": "current-context: [a]", "a day that is none": "a: 2026-99-99",
    "a number of 5,000 digits": f"a: {'9' * 5000}", "a hexadecimal number of 10,000 digits": f"a: 0x{'f' * 10_000}",
    "lists in lists": "[" * 20_000, "objects in objects": "{a: " * 3000 + "1" + "}" * 3000,
    "an object in itself": "a: &a {b: *a}", "a program": "!!python/object/apply:os.system ['true']",
    "a key that is a list": "{[a]: b}", "a tag that nothing knows": "!evil x", "two documents": "a: b\n---\nc: d",
    "aliases of aliases": "a: &a [x,x,x,x,x,x,x,x]\n" + "".join(
        f"{new}: &{new} [{','.join([f'*{old}'] * 8)}]\n" for old, new in zip("abcdefgh", "bcdefghi", strict=True)
    ),
    "control characters": 'clusters: [{name: "\\e]0;evil\\a", cluster: {}}]', "a NUL": "a: \0",
    "no UTF-8": b"\xff\xfe\xfa",
    "17 MB": b"#" * 17_000_000,
}  # fmt: skip


@pytest.mark.parametrize("name", CONTENTS)
async def test_hostile_content_ends_in_a_warning_or_stays_beside_the_context(
    layout: Layout, tmp_path: Path, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    content, file = CONTENTS[name], tmp_path / "config"
    before = content if isinstance(content, bytes) else content.encode()
    file.write_bytes(before)
    async with asyncio.timeout(20):
        done = await merge(layout, file, CLOCK)
        if done is None:
            assert file.read_bytes() == before
        else:
            assert yaml.safe_load(file.read_text())["current-context"] == done.context
        await unmerge(layout, CLOCK)
    said = capsys.readouterr().err
    assert said.replace("\n", "").isprintable()
    assert (done is None) == ("not changed" in said)
    assert not (tmp_path / "config.lock").exists()


def pipe(file: Path) -> None:
    os.mkfifo(file)


def endless(file: Path) -> None:
    file.symlink_to("/dev/zero")


def folder(file: Path) -> None:
    file.mkdir()


def link_to_itself(file: Path) -> None:
    file.symlink_to(file)


@pytest.mark.parametrize("make", [pipe, endless, folder, link_to_itself])
async def test_kubeconfigs_that_are_no_file_are_left_unchanged(
    layout: Layout, tmp_path: Path, make: Callable[[Path], None], capsys: pytest.CaptureFixture[str]
) -> None:
    make(tmp_path / "config")
    async with asyncio.timeout(10):
        assert await merge(layout, tmp_path / "config", CLOCK) is None
    assert "not changed" in capsys.readouterr().err


@pytest.mark.parametrize("mode", [0o644, 0o666, 0o640, 0o660, 0o604, 0o400])
async def test_a_file_that_others_could_read_is_private_once_it_has_the_rights(
    layout: Layout, tmp_path: Path, mode: int
) -> None:
    file = tmp_path / "config"
    file.write_text(WORK)
    file.chmod(mode)
    assert await merge(layout, file, CLOCK) is not None
    assert stat.S_IMODE(file.stat().st_mode) == mode & 0o700
    assert stat.S_IMODE((tmp_path / "config.before-tarmac").stat().st_mode) == 0o600


@TWICE
@pytest.mark.root
@pytest.mark.parametrize("planted", ["the file", "its folder", "the folder above"])
async def test_a_link_of_another_user_leads_to_no_file_of_root(
    layout: Layout, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, defended: bool, planted: str
) -> None:
    """`sudo tarmac up` may keep HOME: the user would have the server write into any file of root."""
    if not defended:
        monkeypatch.setattr(homekubeconfig, "_check_owner", lambda _file: None)
    roots, home = tmp_path / "roots", tmp_path / "home"
    (roots / ".kube").mkdir(parents=True)
    (roots / ".kube" / "config").write_text(WORK)
    if planted == "the folder above":
        home.symlink_to(roots)
        os.chown(home, NOBODY, NOBODY, follow_symlinks=False)
    else:
        home.mkdir()
        kube = home / ".kube"
        if planted == "its folder":
            kube.symlink_to(roots / ".kube")
        else:
            kube.mkdir()
            (kube / "config").symlink_to(roots / ".kube" / "config")
        for path in (home, kube, kube / "config") if planted == "the file" else (home, kube):
            os.chown(path, NOBODY, NOBODY, follow_symlinks=False)
    await merge(layout, home / ".kube" / "config", CLOCK)
    assert ((roots / ".kube" / "config").read_text() == WORK) is defended


@pytest.mark.parametrize("planted", ["config.before-tarmac", ".config.{pid}"])
async def test_links_in_place_of_its_own_files_are_not_followed(layout: Layout, tmp_path: Path, planted: str) -> None:
    file, target = tmp_path / "config", tmp_path / "target"
    file.write_text(WORK)
    target.write_text("precious")
    (tmp_path / planted.format(pid=os.getpid())).symlink_to(target)
    assert await merge(layout, file, CLOCK) is not None
    assert target.read_text() == "precious"


async def test_a_file_in_a_folder_that_all_users_change_is_left_alone(
    layout: Layout, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    place = tmp_path / "open"
    place.mkdir()
    place.chmod(0o777)
    assert await merge(layout, place / "config", CLOCK) is None
    assert "every user can change it" in capsys.readouterr().err
    place.chmod(0o1777)  # as /tmp, where each user changes their own files only
    assert await merge(layout, place / "config", CLOCK) is not None
