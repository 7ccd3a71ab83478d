"""The chart and the plain manifests: current, checked against a schema, and alike."""

from __future__ import annotations

import json
import subprocess
from typing import Any

import pytest
import yaml

from tarmac import __version__
from tarmac.api.kubernetes.runtimeclasses import CLASSES, OVERHEADS
from tests.support.gobuilt import needs
from tools import image
from tools.kubernetes_manifests import CHART, FOLDER, chart_files, plain_manifests, rendered

Json = dict[str, Any]
PATHS = [each.relative_to(FOLDER) for each in chart_files()]


def documents(name: str) -> list[Json]:
    return [each for each in yaml.safe_load_all((FOLDER / name).read_text()) if each]


@pytest.mark.parametrize("path", PATHS, ids=str)
def test_generated_files_of_the_chart_are_current(path: Any) -> None:
    wanted = chart_files()[FOLDER / path]
    assert (FOLDER / path).read_text() == wanted, "run python -m tools.kubernetes_manifests"


def test_the_chart_has_the_version_and_the_image_of_this_tarmac() -> None:
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
    assert chart["version"] == chart["appVersion"] == __version__
    assert yaml.safe_load((CHART / "values.yaml").read_text())["image"] == image.NAME


def test_the_chart_makes_the_runtime_classes_that_controllers_would_create() -> None:
    made = {each["metadata"]["name"]: each for each in documents("controllers.yaml") if each["kind"] == "RuntimeClass"}
    assert {name: each["handler"] for name, each in made.items()} == {name: name for name in CLASSES}
    overheads = {name: each["overhead"]["podFixed"] for name, each in made.items() if "overhead" in each}
    assert overheads == OVERHEADS


def test_every_value_is_in_the_schema() -> None:
    values = yaml.safe_load((CHART / "values.yaml").read_text())
    schema = json.loads((CHART / "values.schema.json").read_text())
    assert values.keys() == schema["properties"].keys() - {"global"}


@pytest.mark.parametrize("name", ["controllers.yaml", "remove.yaml"])
def test_pods_run_without_root_and_without_capabilities(name: str) -> None:
    [spec] = [each["spec"]["template"]["spec"] for each in documents(name) if "template" in each.get("spec", {})]
    [container] = spec["containers"]
    assert spec["securityContext"]["runAsNonRoot"]
    assert str(spec["securityContext"]["runAsUser"]) == image.USER
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }


def test_only_the_removal_may_delete_kinds() -> None:
    rules = [rule for each in documents("chart/roles.yaml") for rule in each.get("rules", ())]
    assert not [rule for rule in rules if "apiextensions.k8s.io" in rule["apiGroups"]]
    assert not [rule for rule in rules if "*" in (*rule["verbs"], *rule["resources"], *rule["apiGroups"])]
    removal = yaml.safe_load((CHART / "removal-rules.yaml").read_text())
    assert {verb for rule in removal for verb in rule["verbs"]} == {"delete", "get", "list"}
    assert not [rule for rule in removal if "*" in (*rule["resources"], *rule["apiGroups"])]


@pytest.mark.peers
@needs("helm")
def test_helm_renders_the_plain_manifests() -> None:
    stale = [path.name for path, text in plain_manifests().items() if path.read_text() != text]
    assert not stale, "run python -m tools.kubernetes_manifests"


@pytest.mark.peers
@needs("helm")
@pytest.mark.parametrize("wrong", ["image=", "replica=1", "flags={verbose}", "runtimeClasses={kata}"])
def test_helm_rejects_a_value_outside_the_schema(wrong: str, capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(subprocess.CalledProcessError):
        rendered(f"--set={wrong}")
    assert "values don't meet the specifications of the schema" in capfd.readouterr().err


@pytest.mark.peers
@needs("helm")
def test_values_reach_the_pods() -> None:
    flags = ("--set=env[0].name=A,env[0].value=b", "--set=tolerations[0].operator=Exists", "--set=nodeSelector.a=b")
    pods = [each["spec"]["template"]["spec"] for each in rendered(*flags) if each["kind"] in ("Deployment", "Job")]
    assert len(pods) == 2
    for pod in pods:
        assert pod["containers"][0]["env"] == [{"name": "A", "value": "b"}]
        assert (pod["tolerations"], pod["nodeSelector"]) == ([{"operator": "Exists"}], {"a": "b"})
