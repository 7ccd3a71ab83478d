"""Log lines of `tarmac up` go to a bounded file, and to the terminal on request."""

from __future__ import annotations

import os
from pathlib import Path

from tarmac.apps.logfile import LogFile
from tests.apps.test_down import SIMULATED
from tests.support.tarmac_process import TarmacProcess


def test_a_file_that_grows_has_one_older_file_beside_it(tmp_path: Path) -> None:
    path = tmp_path / "a.log"
    log = LogFile(path, most=20)
    for number in range(20):
        for part in (f"line {number}", "\n"):
            log.write(part)
        log.flush()
    log.close()
    assert sorted(each.name for each in tmp_path.iterdir()) == ["a.log", "a.log.1"]
    assert path.read_text().endswith("line 19\n")
    lines = [*(tmp_path / "a.log.1").read_text().splitlines(), *path.read_text().splitlines()]
    assert lines == [f"line {number}" for number in range(20 - len(lines), 20)]
    assert os.stat(path).st_mode & 0o077 == 0


def test_up_logs_to_its_file(tmp_path: Path) -> None:
    with TarmacProcess(tmp_path / "data", *SIMULATED, command="up") as planet:
        assert planet.stop() == 0
    said, logged = planet.log.read_text(), (tmp_path / "data" / "tarmac.log").read_text()
    assert " INFO " not in said
    assert "tarmac: stopping" in logged
    assert f"log lines are in {tmp_path / 'data' / 'tarmac.log'}" in said
    assert f"export KUBECONFIG={planet.kubeconfig}" in said  # a data directory of its own


def test_up_logs_on_the_terminal_when_told_to(tmp_path: Path) -> None:
    with TarmacProcess(tmp_path / "data", *SIMULATED, "--verbose", command="up") as planet:
        assert planet.stop() == 0
    assert "tarmac: stopping" in planet.log.read_text()
    assert not (tmp_path / "data" / "tarmac.log").exists()
