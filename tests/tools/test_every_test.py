"""A run of every test repeats failed tests on request, and names them."""

from __future__ import annotations

from pathlib import Path

import pytest

from tools import every_test

STEADY = "def test_steady(): pass\n"
BROKEN = "def test_broken(): assert False\n"
# fails in the first process that runs it, and in no other
FLAKY = """
import pathlib
def test_flaky():
    tried = pathlib.Path("tried")
    if not tried.exists():
        tried.touch()
        assert False
"""


@pytest.fixture(autouse=True)
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "pytest.ini").write_text("[pytest]\nmarkers =\n  serial\n")
    (tmp_path / "tests").mkdir()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    return tmp_path


def outcome(project: Path, second_look: int, *tests: str) -> int:
    marked = "import pytest\n@pytest.mark.serial\ndef test_alone(): pass\n"
    for number, text in enumerate((marked, *tests)):
        (project / "tests" / f"test_{number}.py").write_text(text)
    return every_test.run(0, second_look)


@pytest.fixture(autouse=True)
def without_workers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Remove the option `-n` of xdist, whose workers cost more here than they save."""
    plain = every_test._pytest  # pyright: ignore[reportPrivateUsage]
    monkeypatch.setattr(every_test, "_pytest", lambda *words: plain(*(words[2:] if words[0] == "-n" else words)))


def test_only_files_with_serial_tests_are_collected_for_the_serial_part(project: Path) -> None:
    assert outcome(project, 0, STEADY) == 0
    assert every_test.serial_files() == ["tests/test_0.py"]


def test_a_run_without_failures_passes(project: Path) -> None:
    assert outcome(project, 3, STEADY) == 0


def test_a_part_without_tests_passes_unless_there_are_none_at_all(project: Path) -> None:
    assert outcome(project, 0) == 0, "one of them runs alone"
    (project / "tests" / "test_0.py").write_text("")
    assert every_test.run(0, 0) == every_test.NONE_THERE


def test_without_a_second_look_one_failure_is_one(project: Path) -> None:
    assert outcome(project, 0, STEADY, FLAKY) == 1


def test_flaky_tests_are_named(project: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert outcome(project, 3, STEADY, FLAKY) == 0
    assert "FLAKY tests/test_2.py::test_flaky" in capfd.readouterr().out


def test_a_second_failure_fails_the_run(project: Path) -> None:
    assert outcome(project, 3, FLAKY, BROKEN) == 1


def test_more_failures_than_allowed_get_no_second_look(project: Path) -> None:
    assert outcome(project, 1, FLAKY, FLAKY.replace("tried", "again")) == 1


def test_a_run_that_did_not_come_to_its_end_gets_no_second_look(project: Path) -> None:
    assert outcome(project, 3, "import nothing_like_this\n") == 2


def test_failures_of_earlier_runs_are_forgotten(project: Path) -> None:
    assert outcome(project, 3, BROKEN) == 1
    assert outcome(project, 3, STEADY) == 0
    assert every_test.failed_tests() == []
