"""How much of the machine is held back: for the system, for the agent and against running out.

The second of the three steps between the command line and a node. It may look at the machine, take time and run
programs; so it comes after everything that can be refused without that, and it can be done again while the node runs.
Each amount says who said it, so that two that contradict each other can be told apart.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace

from tarmac.agent.config.flags import Flags
from tarmac.agent.config.kubelet import KubeletConfiguration
from tarmac.agent.config.reading import BadConfig, Stated
from tarmac.base.cpuset import CPUSet
from tarmac.base.log import log
from tarmac.decide.allocatable.reservations import (
    Reservations,
    Reserved,
    oversubscription_of,
    reserved_amounts,
)
from tarmac.decide.allocatable.thresholds import DEFAULT_HARD, Threshold, thresholds
from tarmac.decide.scheduling.amounts import shown

FILE = "file"
DEFAULT = "default"
_log = log("agent")


async def size(stated: Stated) -> Reservations:
    """What the node holds back; each amount is told in the log. Raises BadConfig."""
    found = stated_reservations(stated, CPUSet(range(os.cpu_count() or 1)))
    for pool, amounts in (("systemReserved", found.system), ("kubeReserved", found.kube)):
        for resource, reserved in amounts.items():
            amount = shown(resource, reserved.amount)
            _log.info("reserved", pool=pool, resource=resource, amount=amount, said_by=reserved.said_by)
    if found.reserved_cpus is not None:
        _log.info("processors reserved by number", cpus=str(found.reserved_cpus), said_by="reservedSystemCPUs")
    return found


def stated_reservations(stated: Stated, present: CPUSet) -> Reservations:
    """What flags and file say of a machine with these processors. Raises BadConfig."""
    flags, kubelet = stated.flags, stated.kubelet
    return Reservations(
        system=_amounts("systemReserved", kubelet.system_reserved),
        kube=_amounts("kubeReserved", kubelet.kube_reserved),
        eviction=_thresholds(kubelet),
        reserved_cpus=_reserved_cpus(kubelet.reserved_system_cpus, present),
        oversubscription=_oversubscription(flags, kubelet),
    )


def hard_evictions(kubelet: KubeletConfiguration) -> dict[str, str]:
    """Below which amounts pods are ended at once."""
    stated = kubelet.eviction_hard
    if stated is None or kubelet.merge_default_eviction_settings:
        return {**DEFAULT_HARD, **(stated or {})}
    return stated


def _thresholds(kubelet: KubeletConfiguration) -> tuple[Threshold, ...]:
    soft, grace = kubelet.eviction_soft, kubelet.eviction_soft_grace_period
    own = kubelet.eviction_hard or {}
    try:
        found = thresholds(hard_evictions(kubelet), soft, grace, kubelet.eviction_minimum_reclaim)
    except ValueError as error:
        raise BadConfig(str(error)) from error
    return tuple(replace(each, said_by=DEFAULT) if each.hard and each.signal not in own else each for each in found)


def _amounts(field: str, texts: Mapping[str, str]) -> dict[str, Reserved]:
    try:
        return reserved_amounts(texts, FILE)
    except ValueError as error:
        raise BadConfig(f"{field}: {error}") from error


def _reserved_cpus(text: str, present: CPUSet) -> CPUSet | None:
    if not text:
        return None
    try:
        reserved = CPUSet.parse(text)
    except ValueError as error:
        raise BadConfig(f"reservedSystemCPUs: {error}") from error
    if missing := reserved - present:
        raise BadConfig(f"reservedSystemCPUs: there is no processor {min(missing)}; there are {len(present)}")
    return reserved


def _oversubscription(flags: Flags, kubelet: KubeletConfiguration) -> int:
    flag, text = "--cpu-over-subscription-capacity", flags.oversubscription
    if not text:
        flag, text = "cpuOverSubscriptionCapacity", str(kubelet.cpu_over_subscription_capacity)
    try:
        return oversubscription_of(text)
    except ValueError as error:
        raise BadConfig(f"{flag}: {error}; write processors, such as 1.5 or 1500m") from error
