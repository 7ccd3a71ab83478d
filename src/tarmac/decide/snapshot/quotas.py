"""Quotas of a namespace, with the Instances that hold resources and those that wait for them."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from tarmac.api.compute.instance import Instance, InstanceRuntime, TemplateMeta
from tarmac.api.compute.names import GATE_QUOTA, LABEL_CITY_CODE, LABEL_INSTANCE_INDEX
from tarmac.api.kubernetes.core.pods.podresources import add
from tarmac.api.shared import ObjectMeta, ResourceList
from tarmac.base.clock import parse_rfc3339
from tarmac.decide.derived.containershares import instance_amounts
from tarmac.decide.derived.overhead import charged, runtime_class_of
from tarmac.decide.derived.qosclasses import instance_places
from tarmac.decide.quota import Admission, Claim, Quota, admit, charges, permissions, quotas_of, used_by
from tarmac.decide.snapshot.snapshot import INSTANCE_TYPES, INSTANCES, PODS, QUOTAS, RUNTIME_CLASSES, Snapshot


@dataclass(frozen=True, slots=True)
class QuotaSnapshot:
    """Quotas, the usage of pods without an Instance, and the claims of Instances that hold and wait."""

    quotas: tuple[Quota, ...]
    used: ResourceList
    holding: list[Claim]
    waiting: list[Claim]

    def admit(self, more: Collection[Claim] = ()) -> Admission:
        """Decide which of the waiting claims, and of `more`, may proceed."""
        return admit(self.quotas, self.used, self.holding, [*self.waiting, *more])

    def raised_for(self, names: Collection[str], more: Collection[Claim] = ()) -> str:
        """Return a sentence with the limits to raise so that `names` may proceed beside those admitted anyway."""
        claims = {claim.name: claim for claim in (*self.waiting, *more)}
        let_through = [claims[name] for name in {*self.admit(more).granted, *names} if name in claims]
        total = dict(self.used)
        for claim in (*self.holding, *let_through):
            add(total, charges(claim))
        raises = [
            f"{resource} of ResourceQuota {quota.name} to {total[resource]}"
            for quota in self.quotas
            for resource, limit in quota.hard.items()
            if resource in total and total[resource] > limit
        ]
        allows = permissions(self.quotas, let_through)
        steps = [f"{verb} {' and '.join(each)}" for verb, each in (("raise", raises), ("allow", allows)) if each]
        if not steps:
            return ""
        wanted, otherwise = " and ".join(steps), "scale something else down" if raises else "ask for another class"
        return f"{wanted[0].upper()}{wanted[1:]}, or {otherwise}."


def ledger_of(snapshot: Snapshot, namespace: str, leaving_out: Collection[str] = ()) -> QuotaSnapshot | None:
    """Return the ledger of a namespace without the Instances `leaving_out`; None if it has no quota."""
    quotas = quotas_of(QUOTAS.all(snapshot, namespace))
    if not quotas:
        return None
    instances = list(INSTANCES.all(snapshot, namespace))
    counted = [each for each in instances if each.metadata.name not in leaving_out]
    return QuotaSnapshot(
        quotas,
        _used_by_others(snapshot, namespace, {each.metadata.name for each in instances}),
        [_claim(snapshot, each) for each in counted if not _is_gated(each)],
        [_claim(snapshot, each) for each in counted if _is_gated(each) and each.metadata.deletion_timestamp is None],
    )


def _is_gated(instance: Instance) -> bool:
    controller = instance.spec.controller
    return controller is not None and any(gate.name == GATE_QUOTA for gate in controller.scheduling_gates)


def _claim(snapshot: Snapshot, instance: Instance) -> Claim:
    own = instance.metadata
    amounts = instance_amounts(instance.spec.runtime, lambda name: INSTANCE_TYPES.get(snapshot, name))
    created = parse_rfc3339(own.creation_timestamp) if own.creation_timestamp else 0.0
    ordinal = own.labels.get(LABEL_INSTANCE_INDEX, "")
    city = own.labels.get(LABEL_CITY_CODE, "")
    classes = instance_places(own.annotations, instance.spec.runtime)
    counted = charged_at(snapshot, instance.spec.runtime, own, amounts or {})
    return Claim(own.name, counted, created, int(ordinal) if ordinal.isdecimal() else 0, city, classes)


def charged_at(
    snapshot: Snapshot, runtime: InstanceRuntime, metadata: ObjectMeta | TemplateMeta | None, amounts: ResourceList
) -> ResourceList:
    """Return the amounts that quotas charge for an instance, including the overhead of its RuntimeClass."""
    name = runtime_class_of(runtime, metadata.annotations if metadata is not None else {})
    return charged(amounts, RUNTIME_CLASSES.get(snapshot, name))


def _used_by_others(snapshot: Snapshot, namespace: str, instances: Collection[str]) -> ResourceList:
    """Return the usage of pods without an Instance; an Instance's Pod has the same name."""
    return used_by(pod for pod in PODS.all(snapshot, namespace) if pod["metadata"]["name"] not in instances)
