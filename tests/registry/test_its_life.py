"""The registry's process: kept over restarts, restarted after a kill, ended by `down`."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tarmac.apps.registry.registrypaths import registries_of
from tarmac.apps.registry.registryserver import is_known
from tests.registry.client import Client, Image
from tests.registry.conftest import SIMULATED, Place, registry_or_loud
from tests.support.ports import free_ports
from tests.support.tarmac_process import TarmacProcess


def eventually(check: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + 20
    while not check():
        assert time.monotonic() < deadline, f"{what} did not come true"
        time.sleep(0.05)


def answers(client: Client) -> bool:
    try:
        return client.send("GET", "/v2/").status in (200, 401)
    except OSError:
        return False


def tarmac(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "tarmac.apps.main", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


@pytest.fixture
def data(tmp_path: Path) -> Iterator[Path]:
    """A data directory; removed also when a test fails."""
    yield tmp_path / "data"
    tarmac("down", "--data-dir", str(tmp_path / "data"))


def test_it_is_started_again_when_killed_kept_over_restarts_and_gone_with_down(data: Path, image: Image) -> None:
    registry_or_loud()
    [port] = free_ports(1)
    with TarmacProcess(data, *SIMULATED, "--registry", str(port), command="up") as process:
        place = Place(process, port)
        builder = place.person("default", "builder", "tarmac:image-pusher")
        blob, content = next(iter(image.blobs.items()))
        begun = builder.call("POST", "/v2/default/app/blobs/uploads/")
        assert builder.push(image, "default/app", "1").status == 201
        [first] = registries_of(data)
        os.kill(first, signal.SIGKILL)
        eventually(lambda: registries_of(data) not in ([], [first]) and answers(builder), "a second registry")
        assert builder.pull("default/app", "1").status == 200
        path = begun.headers["location"].partition(str(port))[2] or begun.headers["location"]
        done = builder.call("PUT", f"{path}&digest={blob}", content, "application/octet-stream")
        assert done.status == 201, "an upload continues after the registry was killed"
        assert process.stop() == 0
        assert registries_of(data) == []
        process.start()
        assert builder.pull("default/app", "1").status == 200
        process.kill()
        [orphan] = registries_of(data)
        process.start()
        eventually(lambda: registries_of(data) not in ([], [orphan]) and answers(builder), "one of its own")
        assert builder.pull("default/app", "1").body == image.manifest
        process.kill()
        assert registries_of(data) != []
    done_with = tarmac("down", "--data-dir", str(data))
    assert (done_with.returncode, done_with.stderr) == (0, "")
    assert registries_of(data) == []
    assert not (data / "registry").exists()


def test_a_taken_port_is_said_plainly(tmp_path: Path, place: Place) -> None:
    flags = ("--data-dir", str(tmp_path / "data"), "--listen", "127.0.0.1:0", "--registry", str(place.port))
    second = tarmac("up", *SIMULATED, *flags)
    assert second.returncode == 1
    assert f"the registry cannot listen on 127.0.0.1:{place.port}" in second.stderr
    assert "Traceback" not in second.stderr


def test_without_the_program_it_says_how_to_get_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TARMAC_NODE_PARTS", str(tmp_path / "nothing"))
    monkeypatch.setenv("PATH", "/nonexistent")
    done = tarmac("up", *SIMULATED, "--data-dir", str(tmp_path / "data"), "--registry")
    assert (done.returncode, "`make registry` fetches" in done.stderr) == (1, True), done.stderr


def test_only_a_port_is_a_port(tmp_path: Path) -> None:
    for wrong in ("0", "65536", "-1", "127.0.0.1:5000"):
        assert tarmac("up", f"--registry={wrong}", "--data-dir", str(tmp_path)).returncode == 2


def test_variables_of_the_registry_do_not_open_it(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    registry_or_loud()
    [port] = free_ports(1)
    monkeypatch.setenv("REGISTRY_AUTH", "{none: {}}")
    monkeypatch.setenv("REGISTRY_HTTP_ADDR", "0.0.0.0:1")
    with TarmacProcess(data, *SIMULATED, "--registry", str(port), command="up") as process:
        assert Place(process, port).client().send("GET", "/v2/").status == 401
        process.stop()


def test_it_says_what_to_put_where_and_nothing_when_that_is_done(tmp_path: Path, place: Place) -> None:
    told = place.process.log.read_text()
    assert f"the registry is ready at https://registry.tarmac.local:{place.port}" in told
    hosts = tmp_path / "hosts"
    hosts.write_text("127.0.0.1 localhost # registry.tarmac.local\n")
    assert not is_known(hosts)
    hosts.write_text("127.0.0.1 localhost registry.tarmac.local\n")
    assert is_known(hosts)
    assert not is_known(tmp_path / "none")


def test_its_files_are_private(place: Place) -> None:
    folder = place.process.data_dir / "registry"
    assert folder.stat().st_mode & 0o777 == 0o700
    for name in ("server.key", "secret", "config.yml"):
        assert (folder / name).stat().st_mode & 0o777 == 0o600, name
    assert (place.process.data_dir / "pki" / "registry.key").stat().st_mode & 0o777 == 0o600
