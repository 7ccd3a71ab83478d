"""What deployments want of their namespace's quotas: the Instances that wait for room, and those not made yet.

An ordered deployment makes its next Instance when the last one is ready; so the one that waits for quota is seldom the
only one that will. A change that is worth making has room for all of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tarmac.api.compute.names import instance_name
from tarmac.api.compute.workload import WorkloadDeployment
from tarmac.decide import rollout
from tarmac.decide.children.classes import template_places
from tarmac.decide.children.resources import instance_amounts
from tarmac.decide.quota import Claim
from tarmac.decide.snapshot.cachedreads import CachedReads
from tarmac.decide.snapshot.quotas import charged_at
from tarmac.decide.snapshot.snapshot import INSTANCE_TYPES


def limits_to_raise(reads: CachedReads, deployments: Sequence[WorkloadDeployment]) -> str:
    """The limits to raise so that these deployments, of one namespace, have all they want; empty when none need be."""
    ledger = reads.ledger(deployments[0].metadata.namespace) if deployments else None
    if ledger is None:
        return ""
    unmade = [claim for deployment in deployments for claim in _unmade(reads, deployment)]
    made = [view.name for each in deployments for view in reads.fleet(each.metadata.namespace, each.metadata.uid)]
    return ledger.raised_for([*made, *(claim.name for claim in unmade)], unmade)


def _unmade(reads: CachedReads, deployment: WorkloadDeployment) -> Iterator[Claim]:
    """What the Instances that a deployment has yet to make will ask for."""
    own, spec = deployment.metadata, deployment.spec
    taken = {view.ordinal for view in reads.fleet(own.namespace, own.uid)}
    amounts = instance_amounts(spec.template.spec.runtime, lambda name: INSTANCE_TYPES.get(reads.snapshot, name))
    classes, template = template_places(spec.template), spec.template
    counted = charged_at(reads.snapshot, template.spec.runtime, template.metadata, amounts or {})
    for ordinal in range(rollout.desired_replicas(spec.scale_settings, spec.replicas)):
        if ordinal not in taken and own.deletion_timestamp is None:
            name = instance_name(own.name, ordinal)
            yield Claim(name, counted, reads.snapshot.now, ordinal, spec.city_code, classes)
