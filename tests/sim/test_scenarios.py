"""Scenario files: those that ship play as they say; mistakes in one are told to its author."""

from __future__ import annotations

from pathlib import Path

import pytest

from tarmac.apps.main import main
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


def test_what_does_not_come_true_fails_the_scenario(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
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
    ],
)
def test_mistakes_are_told(tmp_path: Path, steps: str, told: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["sim", written(tmp_path, steps)]) == 2
    assert told in capsys.readouterr().err


def test_time_is_written_as_people_read_it() -> None:
    assert [stamp(seconds) for seconds in (0, 61.25, 3725.0)] == ["0:00:00.0", "0:01:01.2", "1:02:05.0"]
