"""Processors are assigned at admission, kept across restarts, and released at the end of the pod."""

from __future__ import annotations

from pathlib import Path

import pytest

from tarmac.agent.allocation.allocationsettings import AllocationSettings
from tarmac.agent.allocation.allocator import Allocator
from tarmac.agent.cpumanager.statefile import NAME
from tarmac.agent.model.allotment import Postponed
from tarmac.base.cpuset import CPUSet
from tests.agent.cpumanager.scene import manager, pod
from tests.decide.cpus.pods import container

TWO = container("main", "2")


def test_a_pod_gets_processors_and_gives_them_back(tmp_path: Path) -> None:
    cpus = manager(tmp_path)
    assert str(cpus.shared) == "0-3"
    assert cpus.admit(pod("a", TWO)) is None
    assert str(cpus.of_container("a", "main")) == "1-2"
    assert str(cpus.of_container("b", "main")) == "0,3"
    assert cpus.notes("a") == {"node.tarmac/cpus": '{"main":"1-2"}'}
    assert cpus.notes("b") == {}
    cpus.release("a")
    assert str(cpus.shared) == "0-3"
    assert cpus.notes("a") == {}


def test_asked_again_the_answer_is_the_same_also_of_the_next_agent(tmp_path: Path) -> None:
    cpus = manager(tmp_path)
    cpus.admit(pod("a", container("main", "1")))
    cpus.admit(pod("b", container("main", "1")))
    cpus.release("a")
    after = manager(tmp_path)
    assert not after.begins
    assert after.admit(pod("b", container("main", "1"))) is None
    assert (str(after.own("b")), str(after.shared)) == ("2", "0-1,3")


def test_too_few_are_refused_in_kubelets_words_and_nothing_is_held(tmp_path: Path) -> None:
    cpus = manager(tmp_path)
    cpus.admit(pod("a", TWO))
    allocator = Allocator(AllocationSettings(), [cpus])
    assert allocator.admit(pod("b", TWO)) == (
        "UnexpectedAdmissionError",
        "Allocate failed due to not enough cpus available to satisfy request: requested=2, available=1, "
        "which is unexpected",
    )
    assert not cpus.own("b")
    assert allocator.admit(pod("c", container("main", "1"))) is None


def test_a_disk_that_takes_nothing_gives_no_processors(tmp_path: Path) -> None:
    cpus = manager(tmp_path / "gone")
    refused = cpus.admit(pod("a", TWO))
    assert refused is not None
    assert refused[0] == "UnexpectedAdmissionError"
    assert (str(cpus.own("a")), str(cpus.shared)) == ("", "0-3")
    samples = {name: value for name, _, _, value in cpus.metrics()}
    assert samples["kubelet_cpu_manager_pinning_errors_total"] == 1


def test_the_runtime_is_told_what_a_container_has_to_itself(tmp_path: Path) -> None:
    cpus = manager(tmp_path)
    allocator = Allocator(AllocationSettings(), [cpus])
    made = pod("a", container("main", "1"), container("beside", "500m"))
    allocator.admit(made)
    given = allocator.allot(made).containers
    assert (given["main"].resources().cpuset_cpus, given["beside"].resources().cpuset_cpus) == ("1", "")


def test_processes_of_one_kernel_have_the_processors_of_all_containers(tmp_path: Path) -> None:
    cpus = manager(tmp_path)
    cpus.admit(pod("all", container("a", "1"), container("b", "1")))
    cpus.admit(pod("some", container("a", "1"), container("b", "500m")))
    assert (str(cpus.of_pod("all")), str(cpus.of_pod("some")), str(cpus.of_pod("none"))) == ("1-2", "0,3", "0")
    debugged = pod("all", container("a", "1"), container("b", "1"), ephemeralContainers=[{"name": "debug"}])
    Allocator(AllocationSettings(), [cpus]).allot(debugged)
    assert str(cpus.of_pod("all")) == "0-2"
    assert manager(tmp_path).of_pod("all") is None  # unknown until the pod is known


def test_strict_keeps_the_others_off_the_reserved_ones_while_there_are_any_left(tmp_path: Path) -> None:
    cpus = manager(tmp_path, strict=True)
    assert str(cpus.shared) == "1-3"
    cpus.admit(pod("a", container("main", "3")))
    assert str(cpus.shared) == "0"


def test_a_pod_from_before_the_policy_gets_its_processors_when_it_begins_anew(tmp_path: Path) -> None:
    cpus = manager(tmp_path)
    assert cpus.begins
    old = pod("old", TWO)
    Allocator(AllocationSettings(), [cpus]).allot(old)  # adopted without admission
    assert not cpus.own("old")
    cpus.claim("old")
    assert str(cpus.own("old")) == "1-2"


def test_a_policy_under_which_nobody_has_anything_is_known_to_the_next_agent(tmp_path: Path) -> None:
    manager(tmp_path).keep()
    assert not manager(tmp_path).begins


def test_pods_that_are_gone_give_theirs_back(tmp_path: Path) -> None:
    cpus = manager(tmp_path)
    cpus.admit(pod("a", container("main", "1")))
    cpus.admit(pod("b", container("main", "1")))
    cpus.forget({"b"})
    assert (str(cpus.own("a")), str(cpus.own("b"))) == ("", "2")
    assert str(manager(tmp_path).own("a")) == ""


def test_the_cpu_of_a_guaranteed_pod_cannot_change_in_place(tmp_path: Path) -> None:
    cpus = manager(tmp_path)
    infeasible = Postponed(
        "Infeasible", 'Resize is infeasible for Guaranteed Pods alongside CPU Manager policy "static"'
    )
    assert cpus.postponed(pod("a", container("main", "500m")), pod("a", container("main", "600m"))) == infeasible
    burstable = pod("b", container("main", "1", limit="2")), pod("b", container("main", "2", limit="2"))
    assert cpus.postponed(*burstable) is None
    more = container("main", "1")
    more["resources"]["requests"]["memory"] = more["resources"]["limits"]["memory"] = "128Mi"
    assert cpus.postponed(pod("c", container("main", "1")), pod("c", more)) is None


def test_metrics_count_exclusive_and_shared_cpus(tmp_path: Path) -> None:
    cpus = manager(tmp_path)
    cpus.admit(pod("a", TWO))
    cpus.admit(pod("b", TWO))
    assert {name: value for name, _, _, value in cpus.metrics()} == {
        "kubelet_cpu_manager_pinning_requests_total": 2,
        "kubelet_cpu_manager_pinning_errors_total": 1,
        "kubelet_cpu_manager_shared_pool_size_millicores": 2000,
        "kubelet_cpu_manager_exclusive_cpu_allocation_count": 2,
    }


@pytest.mark.parametrize("uid", ["a", "b"])
def test_reserved_processors_are_nobodys(tmp_path: Path, uid: str) -> None:
    cpus = manager(tmp_path, reserved="1-2")
    cpus.admit(pod(uid, TWO))
    assert cpus.own(uid) == CPUSet.parse("0,3")
    assert (tmp_path / NAME).stat().st_mode & 0o777 == 0o600
