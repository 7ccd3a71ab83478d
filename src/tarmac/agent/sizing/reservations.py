"""The node's reservations: for the system, for the agent, and eviction thresholds.

The second of three steps from the command line to a node. It may read the host's state, take time and run programs, so
it follows all checks that need none of this, and it can be repeated while the node runs. Each amount carries its
source, so that contradictory ones can be distinguished.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from tarmac.agent.config.configreader import BadConfig, StatedConfig
from tarmac.agent.config.cpumanager import check_cpus
from tarmac.agent.config.evictions import hard_evictions
from tarmac.agent.config.flags import Flags
from tarmac.agent.config.kubelet import KubeletConfiguration
from tarmac.agent.sizing.providers import SizingProviders
from tarmac.agent.sizing.response import SizingResponse
from tarmac.agent.stats.topology import online
from tarmac.base.cpuset import CPUSet
from tarmac.base.log import log
from tarmac.decide.allocatable.nodestatus import three_decimals
from tarmac.decide.allocatable.reservations import (
    RESERVED_CPUS,
    Reservations,
    Reserved,
    oversubscription_of,
    reserved_amounts,
)
from tarmac.decide.allocatable.thresholds import Threshold, thresholds
from tarmac.decide.amounts import CPU, shown

FILE = "file"
FLAG = "flag"
DEFAULT = "default"
NO_RESPONSE = SizingResponse({}, {})
"""The response without providers."""
_log = log("agent")


async def size(stated: StatedConfig, providers: SizingProviders | None = None) -> Reservations:
    """Return the reservations; log each amount. Raises BadConfig, ProviderFailed."""
    found = stated_reservations(stated, online())  # reports errors of flags and file before any program runs
    if providers is not None:
        found = await resize(stated, providers)
    check_cpus(stated, found)
    _log_overridden(stated, found)
    lent = three_decimals(found.oversubscription)
    by_number = found.reserved_cpus is not None
    for pool, amounts in (("systemReserved", found.system), ("kubeReserved", found.kube)):
        for resource, reserved in amounts.items():
            if resource == CPU and by_number:  # overridden, and logged as such above
                continue
            fields = {"amount": shown(resource, reserved.amount), "said_by": reserved.source}
            _log.info("reserved", pool=pool, resource=resource, **fields, cpu_oversubscription=lent)
    if by_number:
        fields = {"cpus": str(found.reserved_cpus), "said_by": RESERVED_CPUS}
        _log.info("CPUs reserved by number", **fields, cpu_oversubscription=lent)
    return found


async def resize(stated: StatedConfig, providers: SizingProviders) -> Reservations:
    """Return the reservations again, without logging. Raises BadConfig, ProviderFailed."""
    return stated_reservations(stated, online(), await providers.ask())


def stated_reservations(stated: StatedConfig, present: CPUSet, answer: SizingResponse = NO_RESPONSE) -> Reservations:
    """Merge providers, flags and file, in this order of precedence, for a host with these CPUs. Raises BadConfig."""
    flags, kubelet = stated.flags, stated.kubelet
    file, flag = _stated_in_file(stated), _stated_by_flag(stated)
    return Reservations(
        system={**file.system, **flag.system, **answer.system},
        kube={**file.kube, **flag.kube, **answer.kube},
        eviction=_thresholds(kubelet),
        reserved_cpus=_reserved_cpus(flags, kubelet, present),
        oversubscription=_oversubscription(flags, kubelet),
    )


def _thresholds(kubelet: KubeletConfiguration) -> tuple[Threshold, ...]:
    soft, grace = kubelet.eviction_soft, kubelet.eviction_soft_grace_period
    own = kubelet.eviction_hard or {}
    try:
        found = thresholds(hard_evictions(kubelet), soft, grace, kubelet.eviction_minimum_reclaim)
    except ValueError as error:
        raise BadConfig(str(error)) from error
    return tuple(replace(each, source=DEFAULT) if each.hard and each.signal not in own else each for each in found)


def _stated_in_file(stated: StatedConfig) -> SizingResponse:
    file = stated.kubelet
    system = _amounts("systemReserved", file.system_reserved, FILE)
    return SizingResponse(system, _amounts("kubeReserved", file.kube_reserved, FILE))


def _stated_by_flag(stated: StatedConfig) -> SizingResponse:
    flags = stated.flags
    system = _amounts("--system-reserved", flags.system_reserved, FLAG)
    return SizingResponse(system, _amounts("--kube-reserved", flags.kube_reserved, FLAG))


def _log_overridden(stated: StatedConfig, found: Reservations) -> None:
    """Log each configured amount that is overridden, with the effective one."""
    for given in (_stated_in_file(stated), _stated_by_flag(stated)):
        for pool, amounts, final in (
            ("systemReserved", given.system, found.system),
            ("kubeReserved", given.kube, found.kube),
        ):
            for resource, reserved in amounts.items():
                if final[resource].source != reserved.source:
                    _log_override(pool, resource, reserved, final[resource])
    if found.reserved_cpus is not None:
        by = Reserved(found.held(CPU), RESERVED_CPUS)
        for pool, amounts in (("systemReserved", found.system), ("kubeReserved", found.kube)):
            if CPU in amounts:
                _log_override(pool, CPU, amounts[CPU], by)


def _log_override(pool: str, resource: str, loser: Reserved, winner: Reserved) -> None:
    _log.info(
        "reservation overridden",
        pool=pool,
        resource=resource,
        amount=shown(resource, loser.amount),
        said_by=loser.source,
        by_amount=shown(resource, winner.amount),
        by=winner.source,
    )


def _amounts(field: str, texts: Mapping[str, str], source: str) -> dict[str, Reserved]:
    try:
        return reserved_amounts(texts, source)
    except ValueError as error:
        raise BadConfig(f"{field}: {error}") from error


def _reserved_cpus(flags: Flags, kubelet: KubeletConfiguration, present: CPUSet) -> CPUSet | None:
    field, text = "--reserved-cpus", flags.reserved_cpus
    if not text:
        field, text = "reservedSystemCPUs", kubelet.reserved_system_cpus
    if not text:
        return None
    try:
        reserved = CPUSet.parse(text)
    except ValueError as error:
        raise BadConfig(f"{field}: {error}") from error
    if not reserved <= present:
        raise BadConfig(f"{field}: {reserved} is not a subset of online-cpus: {present}")
    return reserved


def _oversubscription(flags: Flags, kubelet: KubeletConfiguration) -> int:
    flag, text = "--cpu-over-subscription-capacity", flags.oversubscription
    if not text:
        flag, text = "cpuOverSubscriptionCapacity", str(kubelet.cpu_over_subscription_capacity)
    try:
        return oversubscription_of(text)
    except ValueError as error:
        raise BadConfig(f"{flag}: {error}; write processors, such as 1.5 or 1500m") from error
