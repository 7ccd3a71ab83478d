"""Reservations of the clouds, number for number: rows of their documentation and of their own tests."""

from __future__ import annotations

import pytest

from tests.plugins.running import asked

GIBIBYTES = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512)
DOCUMENTED = (256, 512, 1024, 1843, 2662, 3645, 5611, 9543, 12165, 17408)
REAL = (256, 512, 1019, 1819, 2623, 3606, 5572, 9381, 12002, 17245)
CPUS = {1: 60, 2: 70, 3: 75, 4: 80, 5: 82, 6: 85, 8: 90, 16: 110, 32: 150, 64: 230, 96: 310, 128: 390}


@pytest.mark.parametrize(("gibibytes", "documented", "real"), [*zip(GIBIBYTES, DOCUMENTED, REAL, strict=True)])
def test_memory_on_gke(gibibytes: int, documented: int, real: int) -> None:
    memory = f"--memory={gibibytes}Gi"
    assert asked("gke-doc", memory)["kubeReserve"]["memory"] == f"{documented}Mi"
    assert asked("gke", memory)["kubeReserve"]["memory"] == f"{real}Mi"


@pytest.mark.parametrize(
    ("mebibytes", "held"), [(0, 0), (600, 255), (1000, 255), (2000, 500), (8000, 1800), (200000, 10760)]
)
def test_memory_in_the_rows_of_gkes_own_tests(mebibytes: int, held: int) -> None:
    assert asked("gke", "--memory", f"{mebibytes}Mi")["kubeReserve"]["memory"] == f"{held}Mi"


def test_a_small_machine_by_gkes_documentation() -> None:
    assert asked("gke-doc", "--memory=1023Mi")["kubeReserve"]["memory"] == "255Mi"


@pytest.mark.parametrize(("cpus", "held"), [*CPUS.items()])
def test_processors_on_gke_and_eks(cpus: int, held: int) -> None:
    for name in ("gke", "gke-doc", "eks"):
        assert asked(name, f"--cpus={cpus}")["kubeReserve"]["cpu"] == f"{held}m"


def test_many_pods_and_shared_cores_on_gke() -> None:
    for name in ("gke", "gke-doc"):
        assert asked(name, "--cpus=8", "--max-pods=256")["kubeReserve"]["cpu"] == "490m"
        assert asked(name, "--cpus=8", "--max-pods=110")["kubeReserve"]["cpu"] == "90m"
        assert asked(name, "--cpus=2", "--machine-type=e2-medium")["kubeReserve"]["cpu"] == "1060m"
        assert asked(name, "--cpus=2", "--machine-type=e2-standard-2")["kubeReserve"]["cpu"] == "70m"


@pytest.mark.parametrize(
    ("disks", "held"),
    [
        (("--boot-disk=10",), 5 * 1024),
        (("--boot-disk=15",), 7 * 1024 + 512),
        (("--boot-disk=100",), 41 * 1024),
        (("--boot-disk=1000",), 100 * 1024),
        (("--local-ssds=1",), 50 * 1024),
        (("--local-ssds=2", "--boot-disk=10"), 75 * 1024),
        (("--local-ssds=3",), 100 * 1024),
        (("--local-ssds=8",), 100 * 1024),
    ],
)
def test_disks_on_gke(disks: tuple[str, ...], held: int) -> None:
    for name in ("gke", "gke-doc"):
        assert asked(name, *disks)["kubeReserve"]["ephemeral-storage"] == f"{held}Mi"


def test_nothing_is_said_of_disks_that_nobody_told_of() -> None:
    assert asked("gke")["kubeReserve"].keys() == asked("gke-doc")["kubeReserve"].keys() == {"cpu", "memory"}
    assert asked("aks")["kubeReserve"].keys() == {"cpu", "memory"}


@pytest.mark.parametrize(
    ("pods", "held"),
    [(8, 343), (17, 442), (29, 574), (44, 739), (58, 893), (110, 1465), (234, 2829), (250, 3005), (737, 8362)],
)
def test_memory_on_eks(pods: int, held: int) -> None:
    assert asked("eks", "--cpus=2", f"--max-pods={pods}") == {
        "kubeReserve": {"cpu": "70m", "memory": f"{held}Mi", "ephemeral-storage": "1Gi"}
    }


@pytest.mark.parametrize(
    ("cpus", "held"),
    [
        (1, 60),
        (2, 100),
        (3, 120),
        (4, 140),
        (6, 160),
        (8, 180),
        (16, 260),
        (32, 420),
        (64, 740),
        (96, 1060),
        (128, 1380),
    ],
)
def test_processors_on_aks(cpus: int, held: int) -> None:
    assert asked("aks", f"--cpus={cpus}")["kubeReserve"]["cpu"] == f"{held}m"


def test_memory_on_aks() -> None:
    assert asked("aks", "--memory=8G", "--max-pods=30")["kubeReserve"]["memory"] == "650M"
    assert asked("aks", "--memory=4G", "--max-pods=70")["kubeReserve"]["memory"] == "1000M"
    assert asked("aks", "--cpus=2", "--memory=7Gi", "--before-1.29") == {
        "kubeReserve": {"cpu": "100m", "memory": "1638Mi"}
    }
    for gibibytes, held in zip(GIBIBYTES, DOCUMENTED, strict=True):
        assert asked("aks", "--before-1.29", f"--memory={gibibytes}Gi")["kubeReserve"]["memory"] == f"{held}Mi"


@pytest.mark.parametrize(
    ("gibibytes", "held"), [(4, 1), (8, 1), (16, 1), (32, 2), (64, 4), (128, 8), (256, 11), (512, 16)]
)
def test_memory_on_openshift(gibibytes: int, held: int) -> None:
    found = asked("openshift", f"--memory={gibibytes}.9Gi")["systemReserve"]
    assert (found["memory"], found["ephemeral-storage"]) == (f"{held}Gi", "1Gi")


@pytest.mark.parametrize(("cpus", "held"), [(1, 500), (37, 500), (40, 530), (64, 820), (96, 1200), (128, 1580)])
def test_processors_on_openshift(cpus: int, held: int) -> None:
    assert asked("openshift", f"--cpus={cpus}")["systemReserve"]["cpu"] == f"{held}m"


def test_processors_on_openshift_by_its_first_formula() -> None:
    assert asked("openshift", "--cpus=64", "--version=1")["systemReserve"]["cpu"] == "500m"
    assert asked("openshift", "--cpus=200", "--version=1")["systemReserve"]["cpu"] == "570m"
