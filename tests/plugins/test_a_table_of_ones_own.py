"""`brackets` computes exactly the values of a table, and rejects a table that it does not understand."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.plugins.running import asked, run


@pytest.fixture
def table(tmp_path: Path) -> Any:
    """Write a table; return the argument that names it."""

    def write(document: Any) -> str:
        path = tmp_path / "table.json"
        path.write_text(document if isinstance(document, str) else json.dumps(document))
        return f"--table={path}"

    return write


def slices(*pairs: tuple[str, str]) -> list[dict[str, str]]:
    return [{"rate": rate, **({"upTo": up_to} if up_to else {})} for up_to, rate in pairs]


def test_it_can_be_gkes_documentation(table: Any) -> None:
    memory = slices(("4Gi", "25%"), ("8Gi", "20%"), ("16Gi", "10%"), ("128Gi", "6%"), ("", "2%"))
    cpu = slices(("1", "6%"), ("2", "1%"), ("4", "0.5%"), ("", "0.25%"))
    rules = table({"reserve": "kube", "memory": {"brackets": memory, "least": "255Mi"}, "cpu": {"brackets": cpu}})
    for cpus, gibibytes in ((1, 1), (3, 4), (5, 16), (8, 128), (128, 512)):
        machine = (f"--cpus={cpus}", f"--memory={gibibytes}Gi")
        assert asked("brackets", rules, *machine) == asked("gke-doc", *machine)


def test_it_can_be_eks(table: Any) -> None:
    memory = {"flat": "255Mi", "perPod": "11Mi"}
    rules = table({"reserve": "kube", "memory": memory, "ephemeral-storage": {"flat": "1Gi"}})
    assert asked("brackets", rules, "--max-pods=29") == {
        "kubeReserve": {"memory": "574Mi", "ephemeral-storage": "1024Mi"}
    }


def test_it_can_be_flat_and_a_share(table: Any) -> None:
    cpu = {"flat": "80m", "brackets": slices(("", "1%"))}
    memory = {"flat": "330Mi", "brackets": slices(("", "5%"))}
    rules = table({"reserve": "system", "cpu": cpu, "memory": memory})
    assert asked("brackets", rules, "--cpus=8", "--memory=16Gi") == {
        "systemReserve": {"cpu": "160m", "memory": "1149Mi"}
    }


def test_bounds_come_before_rounding_and_a_last_bracket_with_an_end_ends(table: Any) -> None:
    for rule, held in (
        ({"flat": "1", "least": "1.5", "round": "1"}, "1000m"),
        ({"flat": "5", "most": "2.5"}, "2500m"),
        ({"brackets": slices(("2", "50%"))}, "1000m"),
        ({"brackets": slices(("100", "50%"))}, "4000m"),
        ({"brackets": slices(("1", "0.1%"), ("2", "0.04%"))}, "1m"),
        ({}, "0m"),
    ):
        assert asked("brackets", table({"reserve": "kube", "cpu": rule}), "--cpus=8") == {"kubeReserve": {"cpu": held}}


def test_shares_of_disk_and_processes(table: Any) -> None:
    half = {"brackets": slices(("", "50%"))}
    pids = {"brackets": slices(("100", "50%")), "perPod": "2"}
    rules = table({"reserve": "kube", "ephemeral-storage": half, "pid": pids})
    assert asked("brackets", rules, "--boot-disk=3", "--max-pods=5") == {
        "kubeReserve": {"ephemeral-storage": "1536Mi", "pid": "60"}
    }
    assert "give --boot-disk" in run("brackets", rules).err


@pytest.mark.parametrize(
    ("document", "told"),
    [
        ("{", "table.json: "),
        ("[]", "table: expected an object"),
        ({}, "reserve: expected kube or system"),
        ({"reserve": "node"}, "reserve: expected kube or system"),
        ({"reserve": "kube", "memry": {}}, "table: there is no 'memry'; there are reserve, cpu, memory"),
        ({"reserve": "kube", "cpu": {"flatt": "1"}}, "cpu: there is no 'flatt'; there are brackets, flat"),
        ({"reserve": "kube", "cpu": {"flat": 1}}, "cpu.flat: expected a quantity in quotes"),
        ({"reserve": "kube", "cpu": {"flat": "-1"}}, "cpu.flat: '-1' is no amount"),
        ({"reserve": "kube", "cpu": {"round": "0"}}, "cpu.round: expected a multiple of 1m"),
        ({"reserve": "kube", "pid": {"round": "1m"}}, "pid.round: expected a multiple of 1"),
        ({"reserve": "kube", "cpu": {"least": "2", "most": "1"}}, "cpu.most: is less than least"),
        ({"reserve": "kube", "cpu": {"brackets": {}}}, "cpu.brackets: expected a list"),
        ({"reserve": "kube", "cpu": {"brackets": [{}]}}, "cpu.brackets[0].rate: expected a rate such as 25%"),
        ({"reserve": "kube", "cpu": {"brackets": [{"rate": "1"}]}}, "expected a rate such as 25%"),
        ({"reserve": "kube", "cpu": {"brackets": slices(("", "1%"), ("2", "1%"))}}, "only the last bracket has no end"),
        ({"reserve": "kube", "cpu": {"brackets": slices(("2", "1%"), ("2", "1%"))}}, "[1].upTo: must be more"),
        ('{"reserve":"kube","reserve":"kube"}', "a key is there twice among reserve, reserve"),
    ],
)
def test_a_table_that_makes_no_sense(table: Any, document: Any, told: str) -> None:
    ran = run("brackets", table(document), "--cpus=4")
    assert (ran.code, ran.out) == (1, "")
    assert told in ran.err


def test_a_table_has_to_be_there() -> None:
    for args, told in (((), "--table"), (("--table=/no/where",), "No such file")):
        ran = run("brackets", *args)
        assert ran.code == 1
        assert told in ran.err
