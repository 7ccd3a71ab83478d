"""Scenario files: those in the examples play as their text says; errors in one are reported to its author."""

from __future__ import annotations

from pathlib import Path

import pytest

from tarmac.apps.main import main
from tarmac.sim.scenario.script import ScenarioError, read
from tarmac.sim.scenario.timeline import stamp

SHIPPED = sorted((Path(__file__).parents[2] / "examples" / "scenarios").glob("*.yaml"))

WORLD = "name: test\ncities: {DFW: 1}\n"


def written(folder: Path, steps: str) -> str:
    path = folder / "scenario.yaml"
    path.write_text(f"{WORLD}steps:\n{steps}")
    return str(path)


@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: path.stem)
def test_shipped_scenarios_come_out_as_they_say(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code = main(["sim", str(path)])
    told = capsys.readouterr().out
    assert code == 0, told
    assert "NOT SO" not in told


def test_the_timeline_tells_what_happens_and_when(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    steps = "- kill: dfw-0\n- until: {object: node/dfw-0, condition: Ready=Unknown, within: 2m}\n"
    assert main(["sim", written(tmp_path, steps)]) == 0
    told = capsys.readouterr().out.splitlines()
    assert told[0] == "test (seed 1)"
    assert told[1] == "0:00:20.0  --- node dfw-0 loses power"
    assert any("node       dfw-0 Ready=Unknown NodeStatusUnknown" in line for line in told)
    assert any("location   dfw Ready=Unknown LocationUnreachable" in line for line in told)


def test_a_scenario_is_repeatable(capsys: pytest.CaptureFixture[str]) -> None:
    told: list[str] = []
    for _ in range(2):
        main(["sim", str(SHIPPED[0]), "--seed", "7"])
        told.append(capsys.readouterr().out)
    assert told[0] == told[1]


def test_the_nodes_of_one_city_are_configured_apart(tmp_path: Path) -> None:
    path = tmp_path / "scenario.yaml"
    gpus = "cityNodeConfig: {SEA: {capacity: {cpu: 48}, devices: {example.com/gpu: 2}}}\n"
    path.write_text(f"name: test\ncities: {{DFW: 1, SEA: 1}}\nnodeConfig: {{capacity: {{cpu: 16}}}}\n{gpus}steps: []\n")
    sizes = {city: model.sizes["capacity"] for city, model in read(path).models().items()}
    assert (sizes["dfw"]["cpu"], sizes["sea"]["cpu"]) == ("16", "48")
    assert ("example.com/gpu" in sizes["dfw"], sizes["sea"]["example.com/gpu"]) == (False, "2")
    path.write_text(f"name: test\ncities: {{DFW: 1}}\n{gpus}steps: []\n")
    with pytest.raises(ScenarioError, match="cityNodeConfig: SEA is none of cities: DFW"):
        read(path)


def test_a_false_expectation_fails_the_scenario(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    steps = "- expect: {object: location/dfw, condition: Ready=False}\n"
    assert main(["sim", written(tmp_path, steps)]) == 1
    assert "NOT SO: location/dfw: Ready is True (NodesReady" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("steps", "told"),
    [
        ("- {kill: dfw-0, boot: dfw-0}\n", "step 1 must do exactly one thing, not kill, boot"),
        ("- explode: dfw-0\n", "unknown field `explode`"),
        ("- kill: lhr-0\n", "no such node: lhr-0; there are dfw-0"),
        ("- cut: LHR\n", "no such city: LHR; there are DFW"),
        ("- delete: workload/absent\n", "not found"),
        ("- wait: soon\n", "soon"),
        ("- apply: absent.yaml\n", "absent.yaml"),
        ("- [", "not YAML"),
        ("- {}\n", "step 1 must do exactly one thing, not nothing"),
        ("- kill: 7\n", "Expected `str`, got `int`"),
        ("- boot: lhr-0\n", "no such node: lhr-0; there are dfw-0"),
        ("- connect: LHR\n", "no such city: LHR; there are DFW"),
        ("- load: {LHR: 1}\n", "no such city: LHR; there are DFW"),
        ("- crash: controllers-z\n", "no such process: controllers-z; there are controllers-a"),
        ("- start: nobody\n", "no such process: nobody; there are controllers-a"),
        ("- jump: {clock: moon, by: 1s}\n", "no such clock: moon; there are server"),
        ("- jump: {clock: server, by: far}\n", "far"),
        ("- delete: cloud/x\n", "no such kind: 'cloud' in 'cloud/x'; write kind/name"),
        ("- delete: web\n", "no such kind: '' in 'web'; write kind/name"),
        ("- apply: {apiVersion: v1, kind: Cloud}\n", "no such kind: v1 Cloud"),
        ("- apply: {apiVersion: v1, kind: ConfigMap, metadata: {name: No_}}\n", "apply: "),
        ("- patch: {object: node/absent, merge: {}}\n", "patch: "),
        ("- expect: {object: node/dfw-0}\n", "step 1: expect must say one of condition, field, gone, not nothing"),
        (
            "- until: {object: node/dfw-0, gone: true, condition: Ready}\n",
            "step 1: until must say one of condition, field, gone, not condition, gone",
        ),
    ],
)
def test_mistakes_are_told(tmp_path: Path, steps: str, told: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["sim", written(tmp_path, steps)]) == 2
    assert told in capsys.readouterr().err


def test_a_scenario_that_nobody_can_read_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "scenario.yaml"
    for content, told in ((b"\xff\xfe", "not UTF-8"), (b"", "Expected `object`"), (b"[]", "Expected `object`")):
        path.write_bytes(content)
        assert main(["sim", str(path)]) == 2
        assert told in capsys.readouterr().err
    assert main(["sim", str(tmp_path / "absent.yaml")]) == 2
    assert "absent.yaml" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("content", "told"),
    [(b"\xff", "not UTF-8"), (b"a: [", "not YAML"), (b"- a\n", "holds something that is no object")],
)
def test_a_manifest_that_is_none_is_told(
    tmp_path: Path, content: bytes, told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "web.yaml").write_bytes(content)
    assert main(["sim", written(tmp_path, "- apply: web.yaml\n")]) == 2
    assert f"web.yaml: {told}" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("wanted", "told"),
    [
        ("object: node/absent, condition: Ready", "node/absent: it does not exist"),
        ("object: node/dfw-0, gone: true", "node/dfw-0: it is still there"),
        ("object: node/dfw-0, condition: Shiny", "node/dfw-0: it has no condition Shiny"),
        ("object: node/dfw-0, field: spec.unschedulable, equals: true", "spec.unschedulable is None, not True"),
        ("object: node/dfw-0, field: status.conditions.99.type, equals: x", "status.conditions.99.type is None"),
        ("object: node/dfw-0, field: status.conditions.first.type, equals: x", "status.conditions.first.type is None"),
        ("object: node/dfw-0, field: metadata.name.more, equals: x", "metadata.name.more is None"),
    ],
)
def test_false_expectations_print_the_present_state(
    tmp_path: Path, wanted: str, told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["sim", written(tmp_path, f"- expect: {{{wanted}}}\n")]) == 1
    assert told in capsys.readouterr().out


def test_a_timed_out_expectation_prints_the_present_state(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    steps = "- until: {object: node/dfw-0, gone: true, within: 5s}\n- say: never reached\n"
    assert main(["sim", written(tmp_path, steps)]) == 1
    told = capsys.readouterr().out
    assert "NOT SO: node/dfw-0 after 5s: it is still there" in told
    assert "never reached" not in told


def test_every_kind_of_step_is_done_and_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "two.yaml").write_text(
        "{apiVersion: v1, kind: ConfigMap, metadata: {name: one}}\n---\n"
        "{apiVersion: v1, kind: Namespace, metadata: {name: shop}}\n"
    )
    steps = """
- say: a day begins
- apply: two.yaml
- patch: {object: configmap/one, merge: {data: {a: b}}}
- expect: {object: default/cm/one, field: data.a, equals: b}
- delete: configmap/one
- until: {object: configmap/one, gone: true, within: 1s}
- load: {DFW: 3}
- jump: {clock: server, by: 1m}
- cut: DFW
- connect: DFW
- crash: controllers-a
- start: controllers-a
- kill: dfw-0
- wait: 1s
- boot: dfw-0
"""
    code = main(["sim", written(tmp_path, steps)])
    told = capsys.readouterr().out
    assert code == 0, told
    assert [line.partition("--- ")[2] for line in told.splitlines() if "--- " in line] == [
        "a day begins",
        "apply configmap/one",
        "apply namespace/shop",
        "patch configmap/one",
        "default/cm/one has data.a b, as expected",
        "delete configmap/one",
        "configmap/one is gone, after 0.0 s",
        "DFW has 3 requests per second",
        "the clock of server jumps by 1m",
        "city DFW is cut off",
        "city DFW is connected again",
        "controllers-a crashes",
        "controllers-a starts",
        "node dfw-0 loses power",
        "node dfw-0 boots",
    ]


def test_time_is_written_as_people_read_it() -> None:
    assert [stamp(seconds) for seconds in (0, 61.25, 3725.0)] == ["0:00:00.0", "0:01:01.2", "1:02:05.0"]
