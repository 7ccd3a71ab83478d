"""Exit codes of commands: 0 done, 1 failed, 2 the command line is wrong; and messages on standard error."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tarmac.apps import agent, lock
from tarmac.apps.cities import runtimechoice as choosing
from tarmac.apps.cities.runtimechoice import Impossible, choose
from tarmac.apps.main import main
from tarmac.runtimes.parts import PartMissing


@pytest.fixture(autouse=True)
def an_agent_that_leaves_the_allocator_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(agent, "share_one_heap", lambda: None)


@pytest.mark.parametrize(
    ("arguments", "code", "told"),
    [
        (["agent"], 2, "give --kubeconfig to run a node, or --remove to remove it"),
        (["agent", "--kubeconfig=k", "--config=absent.yaml"], 78, "absent.yaml"),
        (["agent", "--kubeconfig=k", "--node-name=No_"], 78, "--node-name: 'No_'"),
        (["agent", "--kubeconfig=k", "--container-runtime-endpoint=tcp://x"], 78, "is not unix:///PATH"),
        (["agent", "--kubeconfig=k", "--cpu-over-subscription-capacity=many"], 78, "--cpu-over-subscription-capacity"),
        (["controllers", "--controllers=-gardener"], 1, "no such controller: gardener"),
        (["controllers", "--kubeconfig=absent"], 1, "absent"),
        (["server", "--feature-gates=ClassResource=true"], 2, "did you mean ClassResources?"),
        (
            ["controllers", "--feature-gates=QOSResourcs=true"],
            2,
            "--feature-gates: there is no feature gate QOSResourcs",
        ),
        (["up", "--feature-gates=KubeletSizingProvidrs=true"], 2, "did you mean KubeletSizingProviders?"),
        (["up", "--feature-gates=ClassResources=true,QOSResources=false"], 2, "are one feature gate"),
        (["crds", "--rbac=gardener"], 1, "no such controller: gardener"),
        (["store", "repair", "--store=etcd://e:2379"], 1, "only SQLite stores are repaired here"),
        (["why", "pod/x", "--kubeconfig=absent"], 1, "absent"),
        (["plan", "-f", "absent.yaml", "--kubeconfig=absent"], 1, "absent"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_failures_name_their_cause_and_exit_code(
    arguments: list[str],
    code: int,
    told: str,
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(arguments) == code
    said = capfd.readouterr().err
    assert told in said
    assert "Traceback" not in said


def test_a_signal_during_the_start_ends_it_as_one_after_it_would(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:  # accepts connections and never answers
        store = f"etcd://127.0.0.1:{silent.getsockname()[1]}"
        command = [sys.executable, "-m", "tarmac.apps.main", "server", "--store", store]
        command += ["--data-dir", str(tmp_path / "data"), "--listen", "127.0.0.1:0"]
        with (
            subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process,
            silent.accept()[0],  # it has started, and waits for a response
        ):
            process.send_signal(signal.SIGTERM)
            out, said = process.communicate(timeout=30)
    assert (process.returncode, out) == (0, "")
    assert "Traceback" not in said


def test_a_lock_is_held_once_and_names_its_holder(tmp_path: Path) -> None:
    path = tmp_path / "up.lock"
    assert lock.holder(path) is None, "there is no file"
    with lock.held(path):
        assert lock.holder(path) == os.getpid()
        with pytest.raises(OSError, match=f"in use by process {os.getpid()}"), lock.held(path):
            pytest.fail("held twice")
        assert lock.holder(path) == os.getpid(), "the rejected process has changed nothing"
    assert lock.holder(path) is None, "the file stays, without a holder"
    with lock.held(path):
        pass


@pytest.fixture
def equipped(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """A machine that can run containers; tests remove a part."""
    machine = SimpleNamespace(
        user=0, tools={"nft", "nsenter", "mkfs.ext4"}, parts=SimpleNamespace(runsc="runsc", no_gvisor="")
    )

    def find_parts() -> Any:
        if machine.parts is None:
            raise PartMissing("there is no containerd")
        return machine.parts

    monkeypatch.setattr(choosing.os, "geteuid", lambda: machine.user)
    monkeypatch.setattr(choosing.shutil, "which", lambda tool: tool if tool in machine.tools else None)
    monkeypatch.setattr(choosing, "find_parts", find_parts)
    return machine


def test_real_containers_where_everything_is_there(equipped: SimpleNamespace) -> None:
    assert choose("auto")[:2] == ("containerd", "real containers; sandboxes by gVisor")
    assert choose("sim")[:2] == ("sim", "set by --runtime")
    equipped.parts = SimpleNamespace(runsc=None, no_gvisor="not built")
    assert "there is no gVisor (not built)" in choose("containerd").why


@pytest.mark.parametrize(
    ("lacking", "reason"),
    [
        ({"user": 1000}, "need root"),
        ({"tools": {"nsenter"}}, "these packages are missing: e2fsprogs, nftables"),
        ({"parts": None}, "there is no containerd"),
    ],
)
def test_where_something_lacks_it_is_simulated_and_said(
    equipped: SimpleNamespace, lacking: dict[str, Any], reason: str
) -> None:
    equipped.__dict__.update(lacking)
    choice = choose("auto")
    assert (choice.runtime, choice.parts) == ("sim", None)
    assert reason in choice.why
    with pytest.raises(Impossible, match=reason):
        choose("containerd")
