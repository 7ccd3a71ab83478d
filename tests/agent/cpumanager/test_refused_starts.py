"""An agent with invalid processor settings exits with a code and one line, before it changes anything."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tarmac.agent.cpumanager.statefile import NAME
from tests.agent.sizing.stage import Stage

STATIC = {"cpuManagerPolicy": "static", "systemReserved": {"cpu": "1"}}
CGROUPS = "can't use reservedSystemCPUs (--reserved-cpus) with systemReservedCgroup (--system-reserved-cgroup) or "


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[Stage]:
    with Stage(tmp_path) as made:
        yield made


@pytest.mark.parametrize(
    ("settings", "flags", "why"),
    [
        ({"cpuManagerPolicy": "static"}, (), "cpuManagerPolicy: the static policy requires systemreserved.cpu + "),
        ({}, ("--cpu-manager-policy=static",), "cpuManagerPolicy: the static policy requires systemreserved.cpu + "),
        (
            STATIC | {"cpuManagerPolicyOptions": {"full-pcpus-only": "true"}},
            (),
            "cpuManagerPolicyOptions: 'full-pcpus-only' is not offered; there is strict-cpu-reservation",
        ),
        (
            STATIC | {"cpuManagerPolicyOptions": {"strict-cpu-reservation": "true"}},
            ("--cpu-over-subscription-capacity=1",),
            "cpuOverSubscriptionCapacity: must be 0 with the option strict-cpu-reservation",
        ),
        ({}, ("--reserved-cpus=0,4095",), "--reserved-cpus: 0,4095 is not a subset of online-cpus: 0"),
        ({}, ("--reserved-cpus=x",), "--reserved-cpus: invalid CPU range 'x' in 'x'"),
        ({"systemReservedCgroup": "/x"}, ("--reserved-cpus=0",), CGROUPS),
        ({"systemReserved": {"memry": "1Gi"}}, (), 'systemReserved: cannot reserve "memry" resource'),
        (
            {"enforceNodeAllocatable": ["system-reserved"]},
            (),
            "systemReservedCgroup: must be specified when 'system-reserved' or 'system-reserved-compressible' is in ",
        ),
        (
            {"enforceNodeAllocatable": ["kube-reserved-compressible"], "kubeReservedCgroup": "/tarmac-is-not-there"},
            (),
            'Failed to enforce Kube Reserved Cgroup Limits on "/tarmac-is-not-there": ',
        ),
        ({"enforceNodeAllocatable": ["none", "pods"]}, (), "enforceNodeAllocatable: may not contain additional "),
    ],
)
def test_settings_that_make_no_sense_together(
    stage: Stage, settings: dict[str, Any], flags: tuple[str, ...], why: str
) -> None:
    stage.settings(**settings)
    done = stage.run(*flags)
    assert (done.returncode, done.stdout) == (78, ""), done.stderr
    last = done.stderr.splitlines()[-1]
    assert last.startswith("error: ")
    assert why in last
    assert stage.untouched()


def test_a_damaged_state_file(stage: Stage) -> None:
    stage.settings(**STATIC)
    stage.root.mkdir()
    (stage.root / NAME).write_text('{"policyName":"static","defaultCpuSet":"0","entries":{},"checksum":1}')
    done = stage.run()
    remedy = "checksum does not match; drain the node, delete this file and start the agent again"
    assert (done.returncode, done.stderr.splitlines()[-1]) == (78, f"error: {stage.root / NAME}: {remedy}")
    assert stage.untouched()


def test_a_mistyped_flag(stage: Stage) -> None:
    done = stage.run("--reserved-cpu=0")
    told = "error: there is no flag --reserved-cpu; did you mean --reserved-cpus?\n"
    assert (done.returncode, done.stdout, done.stderr) == (2, "", told)
    assert stage.untouched()
