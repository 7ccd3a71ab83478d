"""`tarmac up` runs everything with classes on, and hands gates and further flags to its agents."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from tarmac.apps import up
from tarmac.apps.cities import agents
from tarmac.apps.cities.layout import CityLayout
from tarmac.apps.commands import parser
from tarmac.base.gates import BadGate

ON, OFF = {"ClassResources": True, "WayIn": False}, {"ClassResources": False, "WayIn": False}


def told(*flags: str) -> Any:
    options = parser().parse_args(["up", *flags])
    up._set_gates(options)
    return options


@pytest.mark.parametrize(
    ("flags", "on"),
    [
        (["--outside"], True),
        (["--outside=10.1.0.0/24"], True),
        (["--outside", "--feature-gates=WayIn=false"], False),
        (["--feature-gates=WayIn=true"], True),
        ([], False),
    ],
)
def test_an_outside_turns_public_addresses_on_in_every_part(flags: list[str], on: bool) -> None:
    options = told(*flags)
    assert options.feature_gates["WayIn"] is on
    assert f"WayIn={str(on).lower()}" in options.agent_arg[0]


@pytest.mark.parametrize(
    ("flags", "server", "agent"),
    [
        (
            [],
            ON,
            "ExternalServices=true,KubeletSizingProviders=false,ClassResources=true,SandboxedGPUs=true,WayIn=false",
        ),
        (
            ["--feature-gates=QOSResources=false"],
            OFF,
            "ExternalServices=true,KubeletSizingProviders=false,ClassResources=false,SandboxedGPUs=true,WayIn=false",
        ),
        (
            ["--feature-gates=KubeletSizingProvider=true"],
            ON,
            "ExternalServices=true,KubeletSizingProviders=true,ClassResources=true,SandboxedGPUs=true,WayIn=false",
        ),
    ],
)
def test_each_part_hears_of_its_own_gates(flags: list[str], server: dict[str, bool], agent: str) -> None:
    options = told(*flags)
    assert options.feature_gates == server
    (flag,) = options.agent_arg
    assert set(flag.removeprefix("--feature-gates=").split(",")) == set(f"ExternalServices=true,{agent}".split(","))


def test_gates_of_agents_are_judged_before_anything_starts() -> None:
    with pytest.raises(BadGate, match="did you mean KubeletSizingProviders"):
        told("--feature-gates=KubeletSizingProvidrs=true")
    with pytest.raises(BadGate, match="ClassResources and QOSResources are one feature gate"):
        told("--feature-gates=ClassResources=false,QOSResources=true")


def test_flags_for_agents_come_last_as_they_are() -> None:
    options = told("--agent-arg=--config=/etc/agent.yaml", "--agent-arg=--cpu-over-subscription-capacity=9")
    host = cast("Any", SimpleNamespace(name="dfw", namespace=Path("/run/dfw"), addresses=("192.0.2.1",)))
    city = CityLayout("DFW", host, Path("/data"), Path("/run"), "/pods/dfw", "/own/dfw")
    words = agents.command(city, cast("Any", None), 3, options.agent_arg)
    assert words[-2:] == ["--config=/etc/agent.yaml", "--cpu-over-subscription-capacity=9"]
    read = parser().parse_args(words[words.index("agent") :])
    assert (read.cpu_over_subscription_capacity, str(read.config)) == ("9", "/etc/agent.yaml")
    assert read.feature_gates["ClassResources"]
