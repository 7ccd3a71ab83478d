"""Removes the gate `Quota` from Instances, namespace by namespace, and reports the reason to those that must wait.

One worker decides for one namespace at a time over all its Instances, and an admitted Instance counts at once; so the
same room is never given twice, however far the cache is behind. Without a quota, no Instance waits.
"""

from __future__ import annotations

import msgspec

from tarmac.api.compute.instance import Instance, InstanceStatus
from tarmac.api.compute.names import GATE_QUOTA, QUOTA_GRANTED
from tarmac.api.conditions import find, with_condition
from tarmac.api.kubernetes.core.pods.podresources import add
from tarmac.api.shared import Condition, ResourceList
from tarmac.client.cache import Item, by_namespace
from tarmac.client.targets.typed import INSTANCE_TYPES, INSTANCES
from tarmac.client.targets.untyped import PODS, RESOURCE_QUOTAS, RUNTIME_CLASSES
from tarmac.controllers.context import ControllerContext
from tarmac.controllers.quota.account import QuotaAccount, QuotaHolder, gates_of
from tarmac.controllers.writes import in_batches, write_status
from tarmac.decide import reasons
from tarmac.decide.quota import admit, quotas_of, used_by
from tarmac.decide.verdict import Refusal

MANAGER = "tarmac-quota"
BY_NAMESPACE = "namespace"
SETTLE_SECONDS = 0.1  # changes that come together are decided together


class QuotaController:
    """Reconciles by namespace."""

    def __init__(self, context: ControllerContext) -> None:
        informers = context.informers
        self._clock = context.client.clock
        self._resource = context.client.resource(INSTANCES)
        self._instances = informers.informer(INSTANCES)
        self._instances.add_index(BY_NAMESPACE, by_namespace)
        self._quotas = informers.informer(RESOURCE_QUOTAS)
        self._quotas.add_index(BY_NAMESPACE, by_namespace)
        self._types = informers.informer(INSTANCE_TYPES)
        self._runtime_classes = informers.informer(RUNTIME_CLASSES)
        self._pods = informers.informer(PODS)
        self._accounts: dict[str, QuotaAccount] = {}
        self._classes = context.settings.class_resources
        self._controller = context.controller("quota", self.reconcile, workers=1)
        for informer in (self._instances, self._types, self._runtime_classes, self._pods):
            self._controller.awaits(informer)
        self._controller.watches(self._quotas, by_namespace, after=SETTLE_SECONDS)
        self._instances.on_change(self._instance_changed)

    async def run(self) -> None:
        """Work until cancelled."""
        await self._controller.run()

    def _instance_changed(self, old: Item[Instance] | None, new: Item[Instance] | None) -> None:
        item = new or old
        if item is None:
            return
        namespace = item.metadata.namespace
        account = self._accounts.get(namespace)
        if account is not None:
            if new is not None:
                account.put(new)
            else:
                account.drop(item.metadata.name)
        if account is not None or b'"Quota"' in item.raw:
            self._controller.queue.add_after(namespace, SETTLE_SECONDS)

    async def reconcile(self, namespace: str) -> None:
        """Admit the Instances that fit, and write the reason to the rest."""
        listed = (item.object for item in self._quotas.indexed(BY_NAMESPACE, namespace))
        quotas = quotas_of(listed, classes=self._classes)
        account = self._account(namespace)
        waiting = {member.claim.name: member for member in account.waiting()}
        if waiting:
            # No await since the list of waiting Instances: both are of one moment.
            used = self._used(namespace, account)
            admission = admit(quotas, used, (), [member.claim for member in waiting.values()])
            # Counted before any write: an admission whose write fails keeps its room and is repeated.
            for name in admission.granted:
                account.let_through(name)
            refused = [(waiting[name], refusal) for name, refusal in admission.refused.items()]
            await in_batches(self._refuse, refused, self._clock)
        # Includes promises of earlier passes: a write that failed is repeated here.
        await in_batches(self._release, [f"{namespace}/{name}" for name in account.promised()], self._clock)
        # Kept while a promise is open: a new account would count that Instance as waiting.
        if not quotas and not account.waiting() and not account.promised():
            self._accounts.pop(namespace, None)

    def _account(self, namespace: str) -> QuotaAccount:
        account = self._accounts.get(namespace)
        if account is None:
            account = self._accounts[namespace] = QuotaAccount(self._types.get, self._runtime_classes.get)
            for item in self._instances.indexed(BY_NAMESPACE, namespace):
                account.put(item)
        return account

    def _used(self, namespace: str, account: QuotaAccount) -> ResourceList:
        """Return the amounts held by Instances, and used by pods without an Instance."""
        used, prefix = account.held, f"{namespace}/"
        others = [key for key in self._pods.cache.keys() if key.startswith(prefix)]  # noqa: SIM118 - not a dict
        pods = (self._pods.get(key) for key in others if key.removeprefix(prefix) not in account)
        add(used, used_by(pod for pod in pods if pod is not None))
        return used

    async def _release(self, key: str) -> None:
        """Remove the gate from the Instance as cached."""
        item = self._instances.cache.item(key)
        gates = gates_of(item.raw) if item is not None else ()
        if item is None or GATE_QUOTA not in gates:
            return
        # The list is replaced as a whole, conditionally: the deployment controller may have removed its gate since.
        left = [{"name": gate} for gate in gates if gate != GATE_QUOTA]
        patch = {
            "metadata": {"resourceVersion": item.metadata.resource_version},
            "spec": {"controller": {"schedulingGates": left or None}},
        }
        await self._resource.patch(item.metadata.name, patch, item.metadata.namespace, manager=MANAGER)

    async def _refuse(self, refused: tuple[QuotaHolder, Refusal]) -> None:
        member, refusal = refused
        metadata = member.metadata
        instance = self._instances.get(metadata.key)
        if instance is None or instance.metadata.uid != metadata.uid:
            return
        known = instance.status or InstanceStatus()
        granted = find(known.conditions, QUOTA_GRANTED)
        if granted is not None and (granted.status, granted.message) == ("False", refusal.message):
            return
        condition = Condition(QUOTA_GRANTED, "False", reasons.QUOTA_EXHAUSTED, refusal.message)
        condition.observed_generation = instance.metadata.generation
        conditions = with_condition(known.conditions, condition, self._clock.now())
        status = msgspec.structs.replace(known, conditions=conditions)
        await write_status(self._resource, instance.metadata, instance.status, status, MANAGER)
