"""Reservations are validated and rounded to CPUs before the configuration is settled; errors name their source."""

from __future__ import annotations

import io
import os
from pathlib import Path
from typing import Any

import pytest

from tarmac.agent.config.agentconfig import settle
from tarmac.agent.config.configreader import API_VERSION, KIND, BadConfig, StatedConfig, decode, stated
from tarmac.agent.config.configz import in_effect
from tarmac.agent.config.flags import Flags
from tarmac.agent.sizing.providers import SizingProviders
from tarmac.agent.sizing.reservations import size, stated_reservations
from tarmac.base.clock import SystemClock
from tarmac.base.cpuset import CPUSet
from tarmac.base.log import configure
from tarmac.decide.allocatable.reservations import Reserved
from tests.agent.sizing.programs import Programs


def told(file: dict[str, Any], **flags: Any) -> StatedConfig:
    given: dict[str, Any] = {"node_name": "n", "kubeconfig": Path("k"), "node_labels": {}, "feature_gates": {}, **flags}
    return stated(Flags(**given), decode({"apiVersion": API_VERSION, "kind": KIND, **file}))


def test_processors_are_reserved_by_number() -> None:
    found = stated_reservations(told({"reservedSystemCPUs": "0,2-3"}), CPUSet(range(8)))
    assert found.reserved_cpus == CPUSet((0, 2, 3))
    assert found.held("cpu") == 3000


def test_a_processor_that_the_machine_does_not_have_is_refused() -> None:
    with pytest.raises(BadConfig, match="reservedSystemCPUs: 0-1 is not a subset of online-cpus: 0,4"):
        stated_reservations(told({"reservedSystemCPUs": "0-1"}), CPUSet((0, 4)))


def test_each_amount_says_who_said_it() -> None:
    file = {"systemReserved": {"cpu": "500m"}, "kubeReserved": {"memory": "1Gi"}}
    file |= {"evictionHard": {"memory.available": "200Mi"}, "mergeDefaultEvictionSettings": True}
    found = stated_reservations(told(file), CPUSet(range(8)))
    assert found.system == {"cpu": Reserved(500, "file")}
    assert found.kube == {"memory": Reserved(1 << 30, "file")}
    said = {each.signal: each.source for each in found.eviction}
    assert said["memory.available"] == "evictionHard"
    assert said["nodefs.available"] == "default"


async def test_sizing_tells_the_log_what_is_reserved() -> None:
    stream = io.StringIO()
    configure(stream=stream)
    found = await size(told({"systemReserved": {"cpu": "500m", "memory": "1Gi"}, "reservedSystemCPUs": "0"}))
    lines = stream.getvalue().splitlines()
    reserved = [line for line in lines if "agent: reserved " in line]
    assert len(reserved) == 1
    assert "pool=systemReserved resource=memory amount=1Gi said_by=file" in reserved[0], "the start overrides cpu"
    assert any("cpus=0 said_by=reservedSystemCPUs" in line for line in lines)
    assert found.reserved_cpus == CPUSet((0,))
    assert found == stated_reservations(
        told({"systemReserved": {"cpu": "500m", "memory": "1Gi"}, "reservedSystemCPUs": "0"}),
        CPUSet(range(os.cpu_count() or 1)),
    )


def test_settled_reservations_are_those_of_the_sizing() -> None:
    said = told({"evictionHard": {"memory.available": "1Gi"}})
    sizes = stated_reservations(said, CPUSet(range(8)))
    config = settle(said, sizes)
    assert config.reservations is sizes
    assert config.thresholds == sizes.eviction


def test_a_gate_without_effect_is_one_warning_though_flag_and_file_name_it() -> None:
    stream = io.StringIO()
    configure(stream=stream)
    told({"featureGates": {"One": True, "Two": True}}, feature_gates={"Two": False})
    assert [line.rpartition("gate=")[2] for line in stream.getvalue().splitlines()] == ["One", "Two"]


async def test_providers_win_over_flags_and_flags_over_the_file(tmp_path: Path) -> None:
    stream = io.StringIO()
    configure(stream=stream)
    programs = Programs(tmp_path)
    programs.saying("p", kubeReserve={"cpu": "0"}, systemReserve={"memory": "3Gi"})
    file = {"systemReserved": {"cpu": "1", "memory": "1Gi", "pid": "5"}, "kubeReserved": {"cpu": "500m"}}
    said = told(file, system_reserved={"cpu": "250m", "memory": "2Gi"})
    found = await size(said, SizingProviders(programs.config, programs.bin_dir, SystemClock()))
    assert found.system == {
        "cpu": Reserved(250, "flag"),
        "memory": Reserved(3 << 30, "provider p"),
        "pid": Reserved(5, "file"),
    }
    assert found.kube == {"cpu": Reserved(0, "provider p")}
    lines = [line for line in stream.getvalue().splitlines() if "reservation overridden" in line]
    assert [line.partition("pool=")[2] for line in lines] == [
        "systemReserved resource=cpu amount=1 said_by=file by_amount=250m by=flag",
        'systemReserved resource=memory amount=1Gi said_by=file by_amount=3Gi by="provider p"',
        'kubeReserved resource=cpu amount=500m said_by=file by_amount=0 by="provider p"',
        'systemReserved resource=memory amount=2Gi said_by=flag by_amount=3Gi by="provider p"',
    ]
    shown = in_effect(settle(said, found))
    assert shown["systemReserved"] == {"cpu": "250m", "memory": "3Gi", "pid": "5"}
    assert shown["kubeReserved"] == {"cpu": "0"}


async def test_processors_by_number_win_over_every_amount_of_processors(tmp_path: Path) -> None:
    stream = io.StringIO()
    configure(stream=stream)
    programs = Programs(tmp_path)
    programs.saying("p", kubeReserve={"cpu": "7", "memory": "1Gi"})
    providers = SizingProviders(programs.config, programs.bin_dir, SystemClock())
    found = await size(told({"reservedSystemCPUs": "0"}), providers)
    assert (found.held("cpu"), found.held("memory")) == (1000, 1 << 30)
    assert 'amount=7 said_by="provider p" by_amount=1 by=reservedSystemCPUs' in stream.getvalue()


@pytest.mark.parametrize(
    ("file", "flags", "message"),
    [
        ({"systemReserved": {"memry": "1Gi"}}, {}, 'systemReserved: cannot reserve "memry" resource; there are cpu, '),
        ({"kubeReserved": {"cpu": "x"}}, {}, 'kubeReserved: failed to parse quantity "x" for "cpu" resource: '),
        ({}, {"kube_reserved": {"cpu": "-1"}}, '--kube-reserved: resource quantity for "cpu" cannot be negative: -1'),
        ({}, {"system_reserved": {"hugepages-2Mi": "1"}}, '--system-reserved: cannot reserve "hugepages-2Mi" resource'),
    ],
)
def test_a_reservation_that_is_none_is_refused_wherever_it_is_written(
    file: dict[str, Any], flags: dict[str, Any], message: str
) -> None:
    with pytest.raises(BadConfig, match=f"^{message}"):
        stated_reservations(told(file, **flags), CPUSet(range(8)))


async def test_a_bad_configuration_is_refused_before_a_provider_runs(tmp_path: Path) -> None:
    programs = Programs(tmp_path)
    programs.shell("p", f"touch {tmp_path}/ran")
    providers = SizingProviders(programs.config, programs.bin_dir, SystemClock())
    with pytest.raises(BadConfig, match="systemReserved"):
        await size(told({"systemReserved": {"cpu": "x"}}), providers)
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize("period", ["1s", "9s"])
def test_providers_are_not_asked_again_all_the_time(period: str) -> None:
    with pytest.raises(BadConfig, match="sizingProviderPeriod: must be 0s, for never again, or 10s or more"):
        told({"sizingProviderPeriod": period})


def test_the_policy_and_the_processors_of_flags_are_in_effect() -> None:
    said = told(
        {"reservedSystemCPUs": "0", "cpuManagerPolicy": "none"}, reserved_cpus="1,3", cpu_manager_policy="static"
    )
    found = stated_reservations(said, CPUSet(range(4)))
    shown = in_effect(settle(said, found))
    assert (shown["reservedSystemCPUs"], shown["cpuManagerPolicy"]) == ("1,3", "static")
    assert (shown["cpuManagerReconcilePeriod"], shown["cpuManagerPolicyOptions"]) == ("10s", {})
    assert (list(shown["enforceNodeAllocatable"]), shown["systemReservedCgroup"]) == (["pods"], "")
