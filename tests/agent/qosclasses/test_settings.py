"""Validation of `classResources` in the configuration file; an invalid one ends the start."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tarmac.agent.config.configreader import API_VERSION, KIND, BadConfig, decode
from tarmac.agent.config.kubelet import OfferedClass

HEADER = {"apiVersion": API_VERSION, "kind": KIND}


def test_configured_classes_are_offered() -> None:
    stated = {"blockio": {"configFile": "/etc/b.yaml", "classes": {"slow": {"capacity": 4}, "fast": {}}}, "rdt": {}}
    found = decode({**HEADER, "classResources": {"unavailable": "ignore", "types": stated}}).class_resources
    assert found.unavailable == "ignore"
    assert found.types["blockio"].config_file == "/etc/b.yaml"
    assert found.types["blockio"].classes == {"slow": OfferedClass(4), "fast": OfferedClass()}
    assert found.types["rdt"].classes is None


@pytest.mark.parametrize(
    ("stated", "finding"),
    [
        ({"unavailable": "perhaps"}, "classResources.unavailable"),
        ({"typs": {}}, "classResources.typs: there is no such field"),
        ({"types": {"blockio": {"file": "x"}}}, "file"),
        ({"types": {"blockio": {"classes": {"slow": {"most": 1}}}}}, "most"),
        ({"types": {"rdt": {"configFile": "/x"}}}, "classResources.types.rdt.configFile: only classes of type blockio"),
        ({"types": {"blockio": {"configFile": "x"}}}, "configFile: 'x' must be an absolute path"),
        ({"types": {"blockio": {"classes": {"slow": {"capacity": 0}}}}}, "slow.capacity: 0 must be 1 or more"),
        ({"types": {"blockio": {"classes": {"a/b": {}}}}}, "classes.a/b: a name has"),
        ({"types": {"k8s.io/rdt": {}}}, "classResources.types.k8s.io/rdt: write rdt"),
        ({"types": {"pod-qos": {}}}, "pod-qos: cannot be offered"),
        ({"types": {"a b": {}}}, "classResources.types.a b: "),
    ],
)
def test_an_invalid_class_setting_is_named(stated: dict[str, Any], finding: str) -> None:
    with pytest.raises(BadConfig) as refused:
        decode({**HEADER, "classResources": stated})
    assert finding in str(refused.value)


@pytest.mark.root
def test_a_class_file_that_makes_no_sense_ends_the_start_before_anybody_is_asked(tmp_path: Path) -> None:
    if os.geteuid():
        pytest.skip("needs root: the agent looks at control groups")
    file = tmp_path / "blockio.yaml"
    file.write_text("Classes: {slow: [{Weight: 5}]}\n")
    config = tmp_path / "kubelet.json"
    config.write_text(json.dumps({**HEADER, "classResources": {"types": {"blockio": {"configFile": str(file)}}}}))
    command = [sys.executable, "-m", "tarmac.apps.main", "agent", "--node-name=n", f"--config={config}"]
    command += [f"--kubeconfig={tmp_path}/none", f"--root-dir={tmp_path}/root", f"--run-dir={tmp_path}/run"]
    command += ["--feature-gates=ClassResources=true", f"--cgroup-root=/tarmac-test-{os.getpid()}"]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert ended.returncode == 78, ended.stderr
    said = (
        f"error: classResources.types.blockio.configFile: {file}: Classes.slow[0].Weight: 5 is not between 10 and 1000"
    )
    assert ended.stderr.splitlines()[-1] == said
