"""The wheel: the distribution `tarmac-cities` brings the command and the module `tarmac`, with types and tables."""

from __future__ import annotations

import configparser
import os
import subprocess
import sys
import zipfile
from email.parser import Parser
from pathlib import Path

import pytest

from tarmac import __version__
from tools.cache import ROOT

NAME = "tarmac_cities"


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The unpacked wheel."""
    folder = tmp_path_factory.mktemp("wheel")
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    subprocess.run(build, cwd=ROOT, check=True, capture_output=True, timeout=120)
    [built] = folder.glob("*.whl")
    assert built.name == f"{NAME}-{__version__}-py3-none-any.whl"
    with zipfile.ZipFile(built) as archive:
        archive.extractall(folder / "installed")
    return folder / "installed"


def test_the_distribution_has_a_name_of_its_own_and_the_commands_keep_theirs(wheel: Path) -> None:
    info = wheel / f"{NAME}-{__version__}.dist-info"
    metadata = Parser().parsestr((info / "METADATA").read_text())
    assert (metadata["Name"], metadata["Version"]) == ("tarmac-cities", __version__)
    scripts = configparser.ConfigParser()
    scripts.read(info / "entry_points.txt")
    assert set(scripts["console_scripts"]) == {"tarmac", "kubectl-tarmac"}
    assert [each.name for each in wheel.iterdir() if each != info] == ["tarmac"], "no other module"


def test_the_command_runs_from_the_wheel_alone(wheel: Path, tmp_path: Path) -> None:
    environment = {**os.environ, "PYTHONPATH": str(wheel)}
    words = [
        sys.executable,
        "-c",
        "import tarmac, tarmac.apps.main as m; print(tarmac.__file__); m.main(['--version'])",
    ]
    done = subprocess.run(words, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=60)
    file, _, version = done.stdout.partition("\n")
    assert file.startswith(str(wheel)), done.stderr
    assert __version__ in version
    assert (wheel / "tarmac" / "py.typed").exists()
    assert list((wheel / "tarmac").rglob("_generated/*")), "tables that `make setup` makes"
