"""The chain that the server runs, in the order Kubernetes runs it."""

from __future__ import annotations

from tarmac.base.randomness import Randomness
from tarmac.server.admission.chain import Chain
from tarmac.server.admission.namespacelifecycle import NamespaceLifecycle
from tarmac.server.admission.nodetaints import TaintNodesByCondition
from tarmac.server.admission.priority import Priority
from tarmac.server.admission.runtimeclasses import RuntimeClasses
from tarmac.server.admission.serviceaccounts import ServiceAccounts
from tarmac.server.admission.storage import (
    DefaultStorageClass,
    PersistentVolumeClaimResize,
    StorageObjectInUseProtection,
)
from tarmac.server.admission.tolerations import DefaultTolerationSeconds
from tarmac.server.reader import Reader


def default_chain(reader: Reader, randomness: Randomness) -> Chain:
    """Every plugin that is on by default."""
    return Chain(
        (
            NamespaceLifecycle(reader),
            ServiceAccounts(reader, randomness),
            TaintNodesByCondition(),
            Priority(reader),
            DefaultTolerationSeconds(),
            DefaultStorageClass(reader),
            StorageObjectInUseProtection(),
            RuntimeClasses(reader),
            PersistentVolumeClaimResize(reader),
        )
    )
