"""What a node holds back is known before anything is settled, to the processor, and with who said it."""

from __future__ import annotations

import io
import os
from pathlib import Path
from typing import Any

import pytest

from tarmac.agent.config.flags import Flags
from tarmac.agent.config.reading import API_VERSION, KIND, BadConfig, Stated, decode, stated
from tarmac.agent.config.settings import settle
from tarmac.agent.config.sizing import size, stated_reservations
from tarmac.base.cpuset import CPUSet
from tarmac.base.log import configure
from tarmac.decide.allocatable.reservations import Reserved


def told(file: dict[str, Any], **flags: Any) -> Stated:
    given: dict[str, Any] = {"node_name": "n", "kubeconfig": Path("k"), "node_labels": {}, "feature_gates": {}, **flags}
    return stated(Flags(**given), decode({"apiVersion": API_VERSION, "kind": KIND, **file}))


def test_processors_are_reserved_by_number() -> None:
    found = stated_reservations(told({"reservedSystemCPUs": "0,2-3"}), CPUSet(range(8)))
    assert found.reserved_cpus == CPUSet((0, 2, 3))
    assert found.held("cpu") == 3000


def test_a_processor_that_the_machine_does_not_have_is_refused() -> None:
    with pytest.raises(BadConfig, match="reservedSystemCPUs: there is no processor 1; there are 2"):
        stated_reservations(told({"reservedSystemCPUs": "0-1"}), CPUSet((0, 4)))


def test_each_amount_says_who_said_it() -> None:
    file = {"systemReserved": {"cpu": "500m"}, "kubeReserved": {"memory": "1Gi"}}
    file |= {"evictionHard": {"memory.available": "200Mi"}, "mergeDefaultEvictionSettings": True}
    found = stated_reservations(told(file), CPUSet(range(8)))
    assert found.system == {"cpu": Reserved(500, "file")}
    assert found.kube == {"memory": Reserved(1 << 30, "file")}
    said = {each.signal: each.said_by for each in found.eviction}
    assert said["memory.available"] == "evictionHard"
    assert said["nodefs.available"] == "default"


async def test_sizing_tells_the_log_what_is_reserved() -> None:
    stream = io.StringIO()
    configure(stream=stream)
    found = await size(told({"systemReserved": {"cpu": "500m"}, "reservedSystemCPUs": "0"}))
    lines = stream.getvalue().splitlines()
    assert any("pool=systemReserved resource=cpu amount=500m said_by=file" in line for line in lines)
    assert any("cpus=0 said_by=reservedSystemCPUs" in line for line in lines)
    assert found.reserved_cpus == CPUSet((0,))
    assert found == stated_reservations(
        told({"systemReserved": {"cpu": "500m"}, "reservedSystemCPUs": "0"}), CPUSet(range(os.cpu_count() or 1))
    )


def test_what_is_settled_is_what_was_sized() -> None:
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
