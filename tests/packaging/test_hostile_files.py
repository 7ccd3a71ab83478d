"""Files and processes of local users neither lead the package's scripts to foreign files nor stop them."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

PACKAGING = Path(__file__).parents[2] / "packaging"
OTHER_USER = 65534
as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can run processes of other users")


def run(script: str, action: str, root: Path, **env: str) -> subprocess.CompletedProcess[str]:
    """Run a script of the package with its folders below `root`, in the folder of a local user."""
    text = (PACKAGING / script).read_text()
    for folder in ("/etc/tarmac", "/var/lib/tarmac", "/opt/tarmac", "/run/tarmac", "/run/systemd"):
        text = text.replace(folder, f"{root}{folder}")
    here = root / "home"
    here.mkdir(exist_ok=True)
    return subprocess.run(
        ["/bin/sh", "-c", text, script, action],
        cwd=here,
        env={"PATH": "/usr/bin:/bin", **env},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


@pytest.mark.parametrize("folder", ["etc/tarmac", "var/lib/tarmac"])
@pytest.mark.parametrize("target", ["folder", "file", "nothing", "loop"])
def test_a_purge_deletes_nothing_behind_a_link(tmp_path: Path, folder: str, target: str) -> None:
    victim = tmp_path / "victim"
    victim.mkdir()
    (victim / "file").write_text("precious")
    link = tmp_path / folder
    link.parent.mkdir(parents=True)
    to = {"folder": victim, "file": victim / "file", "nothing": tmp_path / "none", "loop": link}[target]
    link.symlink_to(to)
    assert run("postrm", "purge", tmp_path).returncode == 0
    assert (victim / "file").read_text() == "precious"


def test_a_purge_follows_no_link_of_a_tenant_inside_the_data(tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.mkdir()
    (victim / "file").write_text("precious")
    data = tmp_path / "var/lib/tarmac"
    volume = data / "agent" / "pods" / "x\ny" / "-delete"
    volume.mkdir(parents=True)
    (volume / "out").symlink_to(victim)
    os.mkfifo(volume / "pipe")
    assert run("postrm", "purge", tmp_path).returncode == 0
    assert not data.exists()
    assert (victim / "file").read_text() == "precious"


def test_a_removal_and_an_upgrade_keep_edited_configuration(tmp_path: Path) -> None:
    config = tmp_path / "etc/tarmac/config.yaml"
    config.parent.mkdir(parents=True)
    config.write_text("edited")
    for script, action in (
        ("prerm", "upgrade"),
        ("postrm", "upgrade"),
        ("postinst", "configure"),
        ("postrm", "remove"),
    ):
        assert run(script, action, tmp_path).returncode == 0
    assert config.read_text() == "edited"


@as_root
@pytest.mark.parametrize(("user", "code"), [(OTHER_USER, 0), (0, 1)])
def test_only_shims_of_root_keep_a_purge_from_happening(tmp_path: Path, user: int, code: int) -> None:
    tmp_path.chmod(0o755)
    words = ("-c", "read x", f"{tmp_path}/run/tarmac/containerd/")
    with subprocess.Popen(
        ["containerd-shim-x", *words], executable="/bin/sh", user=user, group=user, stdin=subprocess.PIPE, cwd="/"
    ) as running:
        try:
            assert run("postrm", "purge", tmp_path).returncode == code
        finally:
            running.kill()


@pytest.mark.parametrize("way", ["folder", "PYTHONPATH"])
def test_an_installation_runs_no_python_of_a_local_user(tmp_path: Path, way: str) -> None:
    home = tmp_path / "home"
    home.mkdir()
    for name in ("compileall", "sitecustomize"):
        (home / f"{name}.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')\n")
    system = subprocess.check_output(
        ["/usr/bin/python3", "-c", "import sys; print('cp%d%d' % sys.version_info[:2])"], text=True
    ).strip()
    (tmp_path / "opt/tarmac/lib" / system).mkdir(parents=True)
    env = {"PYTHONPATH": str(home)} if way == "PYTHONPATH" else {}
    assert run("postinst", "configure", tmp_path, **env).returncode == 0
    assert not (tmp_path / "ran").exists()
