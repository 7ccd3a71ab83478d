"""Validates the CPU settings against each other: the policy, its options, and the reservation."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from tarmac.agent.config.configreader import BadConfig, StatedConfig
from tarmac.decide.allocatable.reservations import Reservations
from tarmac.decide.cpus.pools import reserved_count

STRICT: Final = "strict-cpu-reservation"
"""An option of the static policy: the shared pool excludes the reserved CPUs."""


def is_strict(options: dict[str, str]) -> bool:
    """Return True if that option is on."""
    return options.get(STRICT, "false").lower() == "true"


def check_cpus(stated: StatedConfig, reservations: Reservations) -> None:
    """Validate the settings. Raises BadConfig."""
    if findings := list(_findings(stated, reservations)):
        raise BadConfig("; ".join(findings))


def _findings(stated: StatedConfig, reservations: Reservations) -> Iterator[str]:
    kubelet = stated.kubelet
    if reservations.reserved_cpus is not None and (kubelet.system_reserved_cgroup or kubelet.kube_reserved_cgroup):
        yield (
            "can't use reservedSystemCPUs (--reserved-cpus) with systemReservedCgroup (--system-reserved-cgroup) "
            "or kubeReservedCgroup (--kube-reserved-cgroup)"
        )
    yield from _options(kubelet.cpu_manager_policy_options)
    if (stated.flags.cpu_manager_policy or kubelet.cpu_manager_policy) != "static":
        return
    if not reserved_count(reservations):
        yield (
            "cpuManagerPolicy: the static policy requires systemreserved.cpu + kubereserved.cpu to be greater than "
            "zero; reserve at least 1m, or write none"
        )
    if reservations.oversubscription and is_strict(kubelet.cpu_manager_policy_options):
        yield (
            f"cpuOverSubscriptionCapacity: must be 0 with the option {STRICT}: nobody else runs on reserved "
            "processors then, so they cannot be oversubscribed"
        )


def _options(options: dict[str, str]) -> Iterator[str]:
    for name, value in options.items():
        if name != STRICT:
            yield f"cpuManagerPolicyOptions: {name!r} is not offered; there is {STRICT}"
        elif value.lower() not in ("true", "false"):
            yield f"cpuManagerPolicyOptions[{name}]: {value!r} is neither true nor false"
