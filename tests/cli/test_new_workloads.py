"""`tarmac new` writes a short manifest that the server accepts; mistakes are named by flag."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from tarmac.apps.commands import parser, run
from tarmac.apps.newworkload import with_registry
from tests.api.compute.making import causes


def new(*words: str) -> int:
    return run(parser().parse_args(["new", *words]))


def written(capsys: pytest.CaptureFixture[str], *words: str) -> Any:
    assert new(*words) == 0
    text = capsys.readouterr().out
    assert len(text.splitlines()) <= 20
    return yaml.safe_load(text)


def test_the_manifest_is_short_and_valid(capsys: pytest.CaptureFixture[str]) -> None:
    made = written(capsys, "web", "--image", "nginx:1.29", "--port", "8080", "--cities", "dfw,SEA", "--replicas", "2")
    assert made["metadata"] == {"name": "web"}
    spec = made["spec"]["template"]["spec"]
    [container] = spec["runtime"]["sandbox"]["containers"]
    assert container == {
        "name": "web",
        "image": "docker.io/library/nginx:1.29",
        "ports": [{"name": "http", "port": 8080}],
    }
    [placement] = made["spec"]["placements"]
    assert (placement["cityCodes"], placement["scaleSettings"]) == (["DFW", "SEA"], {"minReplicas": 2})
    assert causes(made) == []


@pytest.mark.parametrize("name", ["true", "12", "null", "a-b"])
def test_names_that_yaml_reads_as_something_else_stay_names(capsys: pytest.CaptureFixture[str], name: str) -> None:
    made = written(capsys, name, "--image", "example.com/a:1", "--cities", "DFW")
    assert made["metadata"]["name"] == name
    assert "ports" not in made["spec"]["template"]["spec"]["runtime"]["sandbox"]["containers"][0]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["Web_1", "--image", "a:1", "--cities", "DFW"], "error: NAME: a lowercase RFC 1123 label"),
        (["web", "--image", "a b", "--cities", "DFW"], "error: --image: 'a b' is not an image reference"),
        (["web", "--image", 'a:1"\n', "--cities", "DFW"], "error: --image:"),
    ],
)
def test_a_mistake_is_named(capsys: pytest.CaptureFixture[str], words: list[str], said: str) -> None:
    assert new(*words) == 2
    out, err = capsys.readouterr()
    assert (out, said in err) == ("", True)


@pytest.mark.parametrize("flag", ["--port=0", "--port=65536", "--replicas=0", "--replicas=x", "--cities=PARIS"])
def test_a_number_or_city_that_is_none_is_refused(flag: str) -> None:
    command = [sys.executable, "-m", "tarmac.apps.main", "new", "web", "--image", "a:1", "--cities", "DFW", flag]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout) == (2, "")
    assert flag.partition("=")[0] in done.stderr


def test_a_file_is_written_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "web.yaml"
    words = ("web", "--image", "nginx", "--cities", "DFW", "-o", str(file))
    assert new(*words) == 0
    assert "has no tag and means latest" in capsys.readouterr().err
    before = file.read_text()
    assert new(*words) == 1
    assert f"error: {file}: File exists" in capsys.readouterr().err
    assert file.read_text() == before


def test_short_image_names_get_the_registry_that_container_tools_assume() -> None:
    assert with_registry("nginx:1") == "docker.io/library/nginx:1"
    assert with_registry("acme/web:1") == "docker.io/acme/web:1"
    assert with_registry("registry.local/tarmac/web:1") == "registry.local/tarmac/web:1"
