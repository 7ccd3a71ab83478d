"""Simulated gateways of public addresses: clients near a city, and invariants that a wrong decision breaks."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from tarmac.api.ingress.names import PUBLIC_ADDRESSES
from tarmac.api.schema import JsonObject
from tarmac.apps.main import main
from tarmac.sim.nodes import simulatedingress
from tests.sim.test_the_checker import Telling

EXAMPLE = Path(__file__).parents[2] / "examples" / "scenarios" / "anycast-city-loss.yaml"
CALL = "- call: {from: near-dfw, to: workload/hello, answered: DFW, within: 1s}\n"


def played(folder: Path, capsys: pytest.CaptureFixture[str], head: str, steps: str) -> tuple[int, str]:
    """Play a scenario; return the exit code, and all that it printed."""
    path = folder / "scenario.yaml"
    path.write_text(f"name: test\ncities: {{DFW: 1}}\n{head}steps:\n{steps}")
    code = main(["sim", str(path)])
    printed = capsys.readouterr()
    return code, printed.out + printed.err


@pytest.mark.parametrize(
    ("head", "steps", "expected"),
    [
        ("", CALL, "call: the scenario has no gateways that could announce an address"),
        ("gateways: [dfw-0]\n", CALL.replace("near-dfw", "near-osl"), "no such client: near-osl; there are near-dfw"),
        ("gateways: [dfw-0]\n", CALL, "NOT SO: near-dfw calls workload/hello and is not answered after 1s"),
    ],
)
def test_a_call_that_cannot_succeed_names_the_reason(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], head: str, steps: str, expected: str
) -> None:
    code, printed = played(tmp_path, capsys, head, steps)
    assert code != 0
    assert expected in printed


QUIET = """\
  - apply:
      apiVersion: networking.datumapis.com/v1alpha
      kind: AddressPool
      metadata: {name: public}
      spec: {announce: bgp, ranges: [{cidr: 198.51.100.0/24}], allowedNamespaces: {names: [default]}}
  - apply:
      apiVersion: v1
      kind: Service
      metadata: {name: quiet}
      spec: {type: LoadBalancer, selector: {app: none}, ports: [{port: 80}]}
  - wait: 5s
"""
"""A Service with an address and no pod."""


def always(result: object) -> Callable[..., object]:
    return lambda *_args, **_named: result


def own_share(_leads: object, node: str, *_rest: Any) -> Mapping[str, int]:
    return {node: 1}


@pytest.mark.parametrize(
    ("function", "wrong", "expected"),
    [
        ("silence", always(""), "without an endpoint"),
        ("weights", own_share, "in different ways"),
    ],
)
def test_a_wrong_decision_of_a_gateway_breaks_an_invariant(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    function: str,
    wrong: Callable[..., object],
    expected: str,
) -> None:
    monkeypatch.setattr(simulatedingress, function, wrong)
    text = EXAMPLE.read_text()
    path = tmp_path / "scenario.yaml"
    # Up to the first call: the rest of the story would fail for other reasons.
    path.write_text(text[: text.index("  - call:")] + QUIET)
    assert main(["sim", str(path)]) != 0
    broken = [line for line in capsys.readouterr().out.splitlines() if "announced-truthfully" in line]
    assert any(expected in line for line in broken)


def address(uid: str, phase: str = "Bound") -> JsonObject:
    claim = {"claimRef": {"namespace": "team", "kind": "Service", "name": "web", "uid": uid}} if uid else {}
    return {"spec": {"address": "203.0.113.5", **claim}, "status": {"phase": phase}}


def test_a_public_address_changes_its_holder_only_after_a_rest() -> None:
    story = Telling().says(0, PUBLIC_ADDRESSES, "a", address("one"))
    assert story.says(1, PUBLIC_ADDRESSES, "a", address("two")).broken == ["public-address-held-once"]
    rested = Telling().says(0, PUBLIC_ADDRESSES, "a", address("one"))
    rested.says(1, PUBLIC_ADDRESSES, "a", address("one", "Released"))
    assert rested.says(2, PUBLIC_ADDRESSES, "a", address("two")).broken == []
    reserved = Telling().says(0, PUBLIC_ADDRESSES, "a", address(""))
    assert reserved.says(1, PUBLIC_ADDRESSES, "a", address("one")).broken == []
