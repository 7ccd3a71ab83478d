"""`tarmac sim FILE --serve` with a file of another author, and unknown clients at the server meanwhile."""

from __future__ import annotations

import http.client
import json
import os
import ssl
import stat
from pathlib import Path

import pytest

from tarmac.sim.scenario.script import ScenarioError, manifests, read
from tests.sim.test_served_scenarios import SCENARIO, scenario
from tests.support.tarmac_process import TarmacProcess

HEAD = "name: x\ncities: {DFW: 1}\nsteps: "
SCENARIOS = {
    "nothing": "",
    "null": "null",
    "a list": "[1]",
    "text": "x",
    "not YAML": "a: [",
    "a NUL": "name: \0",
    "lists in lists": "[" * 50_000,
    "objects in objects": HEAD + "[{apply: " + "{a: " * 3000 + "1" + "}" * 3000 + "}]",
    "a program": "!!python/object/apply:os.system ['true']",
    "a function": "name: !!python/name:os.system",
    "a day that is none": "name: 2026-99-99",
    "5,000 digits": f"seed: {'9' * 5000}",
    "cities as a list": "name: x\ncities: [DFW]\nsteps: []",
    "cities of text": "name: x\ncities: {DFW: many}\nsteps: []",
    "steps that are none": HEAD + "[1, null]",
    "a step of two things": HEAD + "[{say: a, wait: 1s}]",
    "an empty step": HEAD + "[{}]",
    "an unknown step": HEAD + "[{exec: rm -rf /}]",
    "an unknown field": HEAD + "[]\nevil: true",
    "a wish for nothing": HEAD + "[{until: {object: a/b}}]",
    "sizes of nonsense": HEAD + "[]\nnodeConfig: {capacity: 5}",
}


@pytest.mark.parametrize("name", SCENARIOS)
def test_a_hostile_scenario_is_refused_in_a_sentence(tmp_path: Path, name: str) -> None:
    with pytest.raises(ScenarioError) as refused:
        read(scenario(tmp_path, SCENARIOS[name]))
    assert str(refused.value).startswith(str(tmp_path))


@pytest.mark.parametrize("content", ["[" * 50_000, "a: 2026-99-99", "- 1", "x", "a: [", f"a: {'9' * 5000}", b"\xff"])
def test_a_hostile_manifest_of_a_scenario_is_refused(tmp_path: Path, content: str | bytes) -> None:
    (tmp_path / "a.yaml").write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(ScenarioError, match=r"a\.yaml"):
        manifests("a.yaml", tmp_path)


READS = (
    "/api/v1/namespaces",
    "/api/v1/secrets",
    "/api/v1/nodes",
    "/metrics",
    "/debug/pprof/",
    "/apis",
    "/openapi/v2",
    "/tarmac/v1/restored",
    "/api/v1/namespaces/kube-system/secrets",
    "/api/v1/nodes/dfw-0/proxy/metrics",
    "/api/v1/namespaces/default/pods/x/exec?command=sh",
    "/api/v1/namespaces/default/pods/x/log",
    "/../../etc/passwd",
    "/dashboard/../../etc/passwd",
    "/dashboard/%2e%2e/%2e%2e/etc/passwd",
    "/recordings/",
    "/kubeconfig",
    "/pki/ca.key",
    "/tarmac/v1/servers",
    "//api/v1/secrets",
)
WRITES = (
    "/api/v1/namespaces",
    "/api/v1/nodes",
    "/tarmac/v1/servers",
    "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings",
)
CLAIMS: tuple[dict[str, str], ...] = (
    {},
    {"Authorization": "Bearer x"},
    {"X-Remote-User": "admin", "Impersonate-User": "admin"},
)


@pytest.mark.timeout(120)
def test_strangers_at_a_served_scenario_get_nothing(tmp_path: Path) -> None:
    data = tmp_path / "data"
    planet = TarmacProcess(data, str(scenario(tmp_path, SCENARIO)), "--serve", command="sim").start()
    host, _, port = planet.authority.rpartition(":")
    elsewhere = "127.0.0.2" if host == "127.0.0.1" else "0.0.0.0"
    context = ssl._create_unverified_context()
    try:
        for method, targets in (("GET", READS), ("POST", WRITES), ("DELETE", WRITES)):
            for target in targets:
                for headers in CLAIMS:
                    connection = http.client.HTTPSConnection(host, int(port), context=context, timeout=20)
                    body = json.dumps({"metadata": {"name": "evil"}}) if method == "POST" else None
                    connection.request(method, target, body, {"Content-Type": "application/json", **headers})
                    answer = connection.getresponse()
                    text = answer.read()
                    connection.close()
                    assert answer.status in (301, 307, 400, 401, 403, 404, 405), (method, target, answer.status)
                    assert not any(word in text for word in (b"root:", b"PRIVATE KEY", b'"items"')), (method, target)
        with pytest.raises(OSError):
            http.client.HTTPConnection(elsewhere, int(port), timeout=2).connect()
        for folder, _, files in os.walk(data):
            for path in (Path(folder), *(Path(folder) / each for each in files)):
                assert path == data or not stat.S_IMODE(path.lstat().st_mode) & 0o077 or path.is_symlink(), path
    finally:
        assert planet.stop() == 0
    assert "Traceback" not in planet.log.read_text()
