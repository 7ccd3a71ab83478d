"""Tests that share an expensive fixture run on one worker; the longest groups start first."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SHARED = """
import os, pathlib, pytest

@pytest.fixture(scope="package")
def planet():
    path = pathlib.Path("starts")
    path.write_text(path.read_text() + "x" if path.exists() else "x")
"""
USES = "def test_one(planet): pass\ndef test_two(planet): pass\n"
OWN = "def test_own(): pass\n"
LONG = "import pytest\n@pytest.mark.timeout(600)\ndef test_long(): pass\n"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "pytest.ini").write_text("[pytest]\nmarkers =\n  timeout\n")
    folder = tmp_path / "node"
    folder.mkdir()
    (folder / "__init__.py").touch()
    (folder / "conftest.py").write_text(SHARED)
    for name in "abc":
        (folder / f"test_{name}.py").write_text(USES)
    (tmp_path / "test_own.py").write_text(OWN)
    (tmp_path / "test_zlong.py").write_text(LONG)
    return tmp_path


def run(project: Path, *words: str) -> str:
    command = [sys.executable, "-m", "pytest", "-p", "tests.groups", "-p", "no:timeout", *words]
    done = subprocess.run(
        command, cwd=project, env={"PYTHONPATH": str(ROOT), "TMPDIR": str(project)}, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_a_package_scoped_fixture_starts_once_in_a_run_on_two_workers(project: Path) -> None:
    assert "8 passed" in run(project, "-n", "2")
    assert (project / "starts").read_text() == "x"


def test_a_run_leaves_no_file_of_groups(project: Path) -> None:
    run(project, "-n", "2")
    assert list(project.glob("tarmac-test-groups-*")) == []


def test_the_group_with_the_longest_timeout_starts_first(project: Path) -> None:
    listed = run(project, "--collect-only", "-q").splitlines()
    assert listed[0] == "test_zlong.py::test_long"


def test_a_test_marked_last_runs_at_the_end_of_its_group(project: Path) -> None:
    (project / "pytest.ini").write_text("[pytest]\nmarkers =\n  timeout\n  last\n")
    (project / "node" / "test_b.py").write_text(f"import pytest\npytestmark = pytest.mark.last\n{USES}")
    listed = run(project, "--collect-only", "-q").splitlines()
    files = [line.partition("::")[0] for line in listed if "::" in line]
    a, b, c = (f"node/test_{name}.py" for name in "abc")
    assert files == ["test_zlong.py", a, a, c, c, b, b, "test_own.py"]
