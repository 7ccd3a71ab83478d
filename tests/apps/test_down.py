"""`tarmac down` ends the processes of a data directory and removes all their state, and no other."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.support.tarmac_process import TarmacProcess

SIMULATED = ("--runtime", "sim", "--cities", "DFW", "--sim-nodes", "1")


def down(directory: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "tarmac.apps.main", "down", "--data-dir", str(directory)]
    return subprocess.run(command, capture_output=True, text=True, timeout=60)


def test_a_running_planet_is_stopped_and_removed(tmp_path: Path) -> None:
    with TarmacProcess(tmp_path / "data", *SIMULATED, command="up") as planet:
        done = down(tmp_path / "data")
        assert (done.returncode, done.stderr) == (0, "")
        assert not planet.running()
        assert "stopped by tarmac down, which deletes everything" in planet.log.read_text()
        assert "the data is kept" not in planet.log.read_text()
    assert not (tmp_path / "data").exists()


def test_nothing_there_is_nothing_to_do(tmp_path: Path) -> None:
    done = down(tmp_path / "never")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_an_up_after_a_killed_down_keeps_the_data_again(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "removing").touch()
    with TarmacProcess(tmp_path / "data", *SIMULATED, command="up") as planet:
        assert planet.stop() == 0
        assert "stopped; the data is kept" in planet.log.read_text()
    assert down(tmp_path / "data").returncode == 0


def test_foreign_files_stay(tmp_path: Path) -> None:
    with TarmacProcess(tmp_path / "data", *SIMULATED, command="up"):
        (tmp_path / "data" / "thesis.txt").write_text("years of work")
        assert down(tmp_path / "data").returncode == 0
    assert [path.name for path in (tmp_path / "data").iterdir()] == ["thesis.txt"]


def test_a_second_up_in_one_directory_is_refused_and_told_who_is_there(tmp_path: Path) -> None:
    with TarmacProcess(tmp_path / "data", *SIMULATED, command="up") as planet:
        command = [sys.executable, "-m", "tarmac.apps.main", "up", "--data-dir", str(tmp_path / "data"), *SIMULATED]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60)
        assert done.returncode == 1
        told = f"in use by process {planet.pid}; `kill {planet.pid}`, or ^C where it runs, stops it and keeps the data"
        assert told in done.stderr
        assert f"`tarmac down --data-dir {tmp_path / 'data'}` stops it and deletes the data" in done.stderr
