"""The demand of deployments on their namespace's quotas: Instances that wait for room, and those not created yet.

An ordered deployment creates its next Instance when the last one is ready, so the Instance that waits for quota is
seldom the only one that will. A useful change has room for all of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tarmac.api.compute.names import instance_name
from tarmac.api.compute.workload import WorkloadDeployment
from tarmac.decide import rollout
from tarmac.decide.derived.containershares import instance_amounts
from tarmac.decide.derived.qosclasses import template_places
from tarmac.decide.quota import Claim
from tarmac.decide.snapshot.cachedreads import CachedReads
from tarmac.decide.snapshot.quotas import charged_at
from tarmac.decide.snapshot.snapshot import INSTANCE_TYPES


def limits_to_raise(reads: CachedReads, deployments: Sequence[WorkloadDeployment]) -> str:
    """Return the limits to raise so that these deployments of one namespace get all they want; empty when none."""
    ledger = reads.ledger(deployments[0].metadata.namespace) if deployments else None
    if ledger is None:
        return ""
    unmade = [claim for deployment in deployments for claim in _unmade(reads, deployment)]
    made = [view.name for each in deployments for view in reads.fleet(each.metadata.namespace, each.metadata.uid)]
    return ledger.raised_for([*made, *(claim.name for claim in unmade)], unmade)


def _unmade(reads: CachedReads, deployment: WorkloadDeployment) -> Iterator[Claim]:
    """Yield the claims of the Instances that a deployment has yet to create."""
    own, spec = deployment.metadata, deployment.spec
    taken = {view.ordinal for view in reads.fleet(own.namespace, own.uid)}
    amounts = instance_amounts(spec.template.spec.runtime, lambda name: INSTANCE_TYPES.get(reads.snapshot, name))
    classes, template = template_places(spec.template), spec.template
    counted = charged_at(reads.snapshot, template.spec.runtime, template.metadata, amounts or {})
    for ordinal in range(rollout.desired_replicas(spec.scale_settings, spec.replicas)):
        if ordinal not in taken and own.deletion_timestamp is None:
            name = instance_name(own.name, ordinal)
            yield Claim(name, counted, reads.snapshot.now, ordinal, spec.city_code, classes)
