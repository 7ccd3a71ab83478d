"""`tarmac up` adds its context to the user's kubeconfig, `tarmac down` removes it; files of other users stay."""

from __future__ import annotations

import os
import stat
from argparse import Namespace
from pathlib import Path

import pytest
import yaml

from tarmac.apps.homekubeconfig import home_file, merge, unmerge
from tarmac.apps.layout import Layout
from tarmac.apps.welcome import kubeconfig_of
from tarmac.base.clock import SystemClock
from tarmac.cli.flags import default_data_dir
from tests.apps.test_down import SIMULATED, down
from tests.client.test_kubeconfig_merge import OWN, WORK
from tests.support.tarmac_process import TarmacProcess

CLOCK = SystemClock()


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    data = tmp_path / "data"
    data.mkdir()
    made = Layout(data, data / "pki", data / "secrets.key", "")
    made.kubeconfig.write_text(OWN)
    return made


def test_up_adds_it_and_down_removes_it(tmp_path: Path) -> None:
    file = tmp_path / "home" / ".kube" / "config"
    file.parent.mkdir(parents=True)
    file.write_text(WORK)
    flags = (*SIMULATED, "--kubeconfig", str(file))
    with TarmacProcess(tmp_path / "data", *flags, command="up") as planet:
        found = yaml.safe_load(file.read_text())
        assert found["current-context"] == "tarmac"
        assert found["clusters"][-1]["cluster"]["server"] == planet.url
        assert stat.S_IMODE(file.stat().st_mode) == 0o600  # it has the rights of an administrator now
        copy = file.with_name("config.before-tarmac")
        assert (copy.read_text(), stat.S_IMODE(copy.stat().st_mode)) == (WORK, 0o600)
        assert planet.stop() == 0
        said = planet.log.read_text()
        assert f'kubectl uses context "tarmac" of {file} now, {copy} is a copy of it' in said
        assert "  kubectl get locations\n" in said
        assert "export KUBECONFIG" not in said
    assert down(tmp_path / "data").returncode == 0
    assert yaml.safe_load(file.read_text()) == yaml.safe_load(WORK)
    assert not (tmp_path / "data").exists()
    assert sorted(each.name for each in file.parent.iterdir()) == ["config", "config.before-tarmac"]


async def test_a_file_that_is_not_there_is_made_for_its_owner_alone(layout: Layout, tmp_path: Path) -> None:
    file = tmp_path / "home" / ".kube" / "config"
    done = await merge(layout, file, CLOCK)
    assert done is not None
    assert (done.context, done.backup) == ("tarmac", None)
    assert (stat.S_IMODE(file.stat().st_mode), stat.S_IMODE(file.parent.stat().st_mode)) == (0o600, 0o700)
    await unmerge(layout, CLOCK)
    assert not file.exists()


async def test_a_link_stays_a_link(layout: Layout, tmp_path: Path) -> None:
    real, link = tmp_path / "real", tmp_path / "config"
    real.write_text(WORK)
    link.symlink_to(real)
    await merge(layout, link, CLOCK)
    assert link.is_symlink()
    assert "tarmac" in real.read_text()


@pytest.mark.parametrize(
    ("content", "locked", "reason"),
    [("a: [", False, "not a kubeconfig"), (WORK, True, "config.lock is held by another program")],
)
async def test_a_file_that_cannot_be_changed_stays_and_the_way_out_is_printed(
    layout: Layout, tmp_path: Path, capsys: pytest.CaptureFixture[str], content: str, locked: bool, reason: str
) -> None:
    file = tmp_path / "config"
    file.write_text(content)
    if locked:
        (tmp_path / "config.lock").touch()
    assert await merge(layout, file, CLOCK) is None
    said = capsys.readouterr().err
    assert reason in said
    assert f"export KUBECONFIG={layout.kubeconfig}" in said
    assert file.read_text() == content
    await unmerge(layout, CLOCK)  # nothing was merged, so nothing is removed
    assert file.read_text() == content


@pytest.mark.root
async def test_a_file_of_another_user_stays(layout: Layout, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    home = tmp_path / "home"
    home.mkdir()
    os.chown(home, 65534, 65534)
    assert await merge(layout, home / ".kube" / "config", CLOCK) is None
    assert "belongs to another user" in capsys.readouterr().err
    assert not (home / ".kube").exists()


async def test_the_servers_own_file_needs_no_context_added(layout: Layout) -> None:
    assert await merge(layout, layout.kubeconfig, CLOCK) is None
    assert layout.kubeconfig.read_text() == OWN


def test_the_file_is_the_one_that_kubectl_uses(tmp_path: Path) -> None:
    assert home_file({"HOME": "/home/ana"}) == Path("/home/ana/.kube/config")
    assert home_file({"HOME": "/home/ana", "KUBECONFIG": "/a:/b"}) == Path("/a")
    options = Namespace(no_kubeconfig=False, kubeconfig=None, data_dir=tmp_path)
    assert kubeconfig_of(options) is None  # a data directory of its own
    options.data_dir = default_data_dir()
    assert kubeconfig_of(options) == home_file(os.environ)
    options.no_kubeconfig = True
    assert kubeconfig_of(options) is None
