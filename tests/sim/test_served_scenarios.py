"""`tarmac sim FILE --serve`: a scenario in real time, on a server that kubectl and the dashboard reach."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.kubectl import kubectl_path
from tests.support.tarmac_process import TarmacProcess

SCENARIO = """
name: Served
cities: {DFW: 1, NRT: 1}
gateways: [dfw-0]
steps:
  - apply: {apiVersion: v1, kind: ConfigMap, metadata: {name: played}}
  - until: {object: configmap/played, field: metadata.name, equals: played, within: 10s}
  - cut: NRT
  - until: {object: location/nrt, condition: Ready=Unknown, within: 1m}
"""


def scenario(folder: Path, text: str = SCENARIO) -> Path:
    file = folder / "scenario.yaml"
    file.write_text(text)
    return file


def get(planet: TarmacProcess, *words: str) -> dict[str, object]:
    command = [kubectl_path(), "--kubeconfig", str(planet.kubeconfig), "get", *words, "-o", "json"]
    return json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)


@pytest.mark.timeout(90)
def test_a_served_scenario_is_played_and_stays_until_it_is_stopped(tmp_path: Path) -> None:
    planet = TarmacProcess(tmp_path / "data", str(scenario(tmp_path)), "--serve", command="sim").start()
    try:
        command = [kubectl_path(), "--kubeconfig", str(planet.kubeconfig)]
        wait = ["wait", "--for=jsonpath={.status.conditions[?(@.type=='Ready')].status}=Unknown", "location/nrt"]
        subprocess.run([*command, *wait, "--timeout=60s"], check=True, capture_output=True)
        assert get(planet, "configmap", "played")
        labels = get(planet, "node", "dfw-0")["metadata"]["labels"]  # type: ignore[index]
        assert labels["submariner.io/gateway"] == "true"
    finally:
        assert planet.stop() == 0
    told = planet.log.read_text()
    assert f"tarmac dashboard --kubeconfig {planet.kubeconfig}" in told
    assert "city NRT is cut off" in told


@pytest.mark.timeout(90)
def test_a_planet_stays_as_it_is_at_the_step_that_fails(tmp_path: Path) -> None:
    failing = SCENARIO + "  - expect: {object: location/nrt, condition: Ready}\n"
    planet = TarmacProcess(tmp_path / "data", str(scenario(tmp_path, failing)), "--serve", command="sim").start()
    try:
        for _ in range(600):
            if "the planet stays as it is" in planet.log.read_text():
                break
            assert get(planet, "locations")
        assert "error: Served: location/nrt: Ready is Unknown" in planet.log.read_text()
        assert get(planet, "configmap", "played")
    finally:
        assert planet.stop() == 0


@pytest.mark.parametrize(
    ("text", "flags", "problem"),
    [
        (SCENARIO + "  - crash: controllers-a\n", ["--serve"], "step crash: needs virtual time"),
        (SCENARIO.replace("  - cut: NRT", "  - shoot: NRT"), ["--serve"], "shoot"),
        (None, ["--serve"], "a scenario is missing"),
    ],
    ids=["a step of virtual time", "an unknown step", "no scenario"],
)
def test_a_scenario_that_cannot_be_served_is_refused(
    tmp_path: Path, text: str | None, flags: list[str], problem: str
) -> None:
    files = [str(scenario(tmp_path, text))] if text is not None else []
    command = [sys.executable, "-m", "tarmac.apps.main", "sim", *files, *flags]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 2
    assert done.stderr.startswith("error: ")
    assert problem in done.stderr
