"""Output of `tarmac` on a terminal: hints, good-byes, progress; and none where the output is a pipe."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

from tests.support.tarmac_process import TarmacProcess

SIM = ("--runtime", "sim", "--sim-nodes", "1")
PROGRAM = (sys.executable, "-m", "tarmac.apps.main")


def test_a_reader_that_has_enough_ends_a_command_without_a_word() -> None:
    pipe, end = os.pipe()
    os.close(pipe)
    with os.fdopen(end, "wb") as broken:
        done = subprocess.run([*PROGRAM, "crds"], stdout=broken, stderr=subprocess.PIPE, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (128 + signal.SIGPIPE, "")


def test_the_end_says_what_goes_on_and_how_to_remove_it(tmp_path: Path) -> None:
    with TarmacProcess(tmp_path / "data", *SIM, "--cities", "DFW", command="up") as planet:
        os.kill(planet.pid, signal.SIGINT)
        assert planet.wait(30) == 0
    last = planet.log.read_text().splitlines()[-1]
    assert last.startswith("stopped; the data is kept.")
    assert f"`tarmac down --data-dir {tmp_path / 'data'}` stops and deletes everything" in last


def test_cities_that_are_not_named_again_are_told(tmp_path: Path) -> None:
    with TarmacProcess(tmp_path / "data", *SIM, "--cities", "DFW,LHR,SEA", command="up") as planet:
        assert planet.stop() == 0
    with TarmacProcess(tmp_path / "data", *SIM, "--cities", "DFW", command="up") as planet:
        assert "found LHR, SEA of an earlier start, not named in --cities" in planet.log.read_text()


def test_programs_that_are_not_on_the_path_are_told_beside_the_ready_line(tmp_path: Path) -> None:
    command = [*PROGRAM, "up", *SIM, "--cities", "DFW", "--data-dir", str(tmp_path / "data"), "--listen", "127.0.0.1:0"]
    environment = {**os.environ, "PATH": str(tmp_path)}
    with subprocess.Popen(
        command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        ready = process.stdout.readline()
        process.send_signal(signal.SIGTERM)
        rest, said = process.communicate(timeout=30)
    assert ready.startswith("tarmac ready https://")
    assert rest == ""
    assert f"tarmac is not on the PATH: export PATH={Path(sys.executable).parent}:$PATH" in said
    assert "kubectl is not on the PATH: install one from 1.30 on" in said
    assert f"--kubeconfig {tmp_path / 'data' / 'kubeconfig'}" in said


def test_a_start_that_waits_for_etcd_says_so(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:  # accepts connections and never answers
        store = f"etcd://127.0.0.1:{silent.getsockname()[1]}"
        command = [
            *PROGRAM,
            "server",
            "--store",
            store,
            "--data-dir",
            str(tmp_path / "data"),
            "--listen",
            "127.0.0.1:0",
        ]
        with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
            assert process.stderr is not None
            line = next(line for line in process.stderr if "waiting" in line)
            process.terminate()
            process.communicate(timeout=30)
    assert "waiting for the store" in line
    assert store in line
