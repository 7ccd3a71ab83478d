"""The server's admission chain, in Kubernetes' order."""

from __future__ import annotations

from tarmac.api.catalog import Catalog
from tarmac.base.clock import Clock
from tarmac.base.randomness import Randomness
from tarmac.server.admission.antiaffinity import CrossNamespaceAntiAffinity
from tarmac.server.admission.certificates import (
    CertificateApproval,
    CertificateRequester,
    CertificateSigning,
    CertificateSubjectRestriction,
)
from tarmac.server.admission.chain import AdmissionChain, AdmissionPlugin
from tarmac.server.admission.classresources import ClassResourceValidation
from tarmac.server.admission.consolerecording import ConsoleRecording
from tarmac.server.admission.creationrights import CreationRights
from tarmac.server.admission.egressreferences import ExternalReferences
from tarmac.server.admission.hostkernel import HostKernel
from tarmac.server.admission.ingressgate import IngressRejection
from tarmac.server.admission.ingressreferences import IngressReferences
from tarmac.server.admission.instances import InstanceCreation
from tarmac.server.admission.interfaces import InterfaceHolding
from tarmac.server.admission.limitranges import LimitRanger
from tarmac.server.admission.localdisks import LocalDiskRemoval
from tarmac.server.admission.machines import MachineHolding
from tarmac.server.admission.mirrorpods import MirrorPods
from tarmac.server.admission.namespacelifecycle import NamespaceLifecycle
from tarmac.server.admission.networkoverlaps import NetworkOverlaps
from tarmac.server.admission.networkranges import NetworkRanges
from tarmac.server.admission.noclassresources import ClassResourceRejection
from tarmac.server.admission.nodeaddresses import NodeAddressAdmission
from tarmac.server.admission.noderestriction import NodeRestriction
from tarmac.server.admission.nodetaints import TaintNodesByCondition
from tarmac.server.admission.platformaddresses import PlatformAddresses
from tarmac.server.admission.podsecurity.plugin import PodSecurity
from tarmac.server.admission.podtopologylabels import PodTopologyLabels
from tarmac.server.admission.priority import Priority
from tarmac.server.admission.quota.plugin import ResourceQuotas
from tarmac.server.admission.rbacescalation import RbacEscalation
from tarmac.server.admission.restoredconflicts import RestoredConflicts
from tarmac.server.admission.revocations import RevocationRestriction
from tarmac.server.admission.runtimeclasses import RuntimeClassAdmission
from tarmac.server.admission.serviceaccounts import ServiceAccounts
from tarmac.server.admission.serviceaddresses import ServiceAddresses
from tarmac.server.admission.stockcontrollers import StockControllers
from tarmac.server.admission.stockrestriction import StockControllerRestriction
from tarmac.server.admission.storage import (
    DefaultStorageClass,
    PersistentVolumeClaimResize,
    StorageObjectInUseProtection,
)
from tarmac.server.admission.tolerations import DefaultTolerationSeconds
from tarmac.server.admission.workloadreferences import WorkloadReferences
from tarmac.server.reader import Reader
from tarmac.server.security.authorization.authorize import Authorizer


def default_plugins(
    reader: Reader,
    catalog: Catalog,
    clock: Clock,
    randomness: Randomness,
    authorizer: Authorizer,
    *,
    class_resources: bool = False,
    way_in: bool = False,
) -> list[AdmissionPlugin]:
    """Return all plugins enabled by default. Quotas come last, so that no later plugin rejects a charged object."""
    quotas = catalog.find("", "v1", "resourcequotas")
    assert quotas is not None, "resourcequotas are always served"
    addresses = PlatformAddresses(reader)
    return [
        CreationRights(authorizer),
        NamespaceLifecycle(reader),
        StockControllerRestriction(reader, authorizer),  # before those that change Pods
        MirrorPods(),
        LimitRanger(reader, class_resources=class_resources),
        ServiceAccounts(reader, randomness),
        NodeRestriction(reader, authorizer, clock),
        RestoredConflicts(reader),  # after NodeRestriction, since it sets an annotation that nodes may not write
        NodeAddressAdmission(reader),
        LocalDiskRemoval(),
        TaintNodesByCondition(),
        PodSecurity(reader),
        Priority(reader, authorizer),
        DefaultTolerationSeconds(),
        DefaultStorageClass(reader),
        StorageObjectInUseProtection(),
        PersistentVolumeClaimResize(reader),
        RuntimeClassAdmission(reader),
        HostKernel(reader, authorizer),
        CrossNamespaceAntiAffinity(authorizer),
        ClassResourceValidation(reader) if class_resources else ClassResourceRejection(),
        ConsoleRecording(authorizer),
        CertificateRequester(clock),
        CertificateApproval(authorizer),
        CertificateSigning(authorizer),
        CertificateSubjectRestriction(),
        RevocationRestriction(),
        RbacEscalation(authorizer),
        InstanceCreation(),
        InterfaceHolding(reader),
        MachineHolding(reader),
        WorkloadReferences(authorizer),
        NetworkRanges(addresses),
        NetworkOverlaps(reader),
        ExternalReferences(reader, authorizer, addresses),
        IngressReferences(reader, authorizer) if way_in else IngressRejection(),
        PodTopologyLabels(reader),
        ServiceAddresses(reader, randomness),
        StockControllers(reader, clock),
        ResourceQuotas(reader, quotas, class_resources=class_resources),
    ]


def default_chain(
    reader: Reader,
    catalog: Catalog,
    clock: Clock,
    randomness: Randomness,
    authorizer: Authorizer,
    *,
    class_resources: bool = False,
    way_in: bool = False,
) -> AdmissionChain:
    """Return the default plugins as a chain. `class_resources`, `way_in`: the feature gates."""
    return AdmissionChain(
        default_plugins(reader, catalog, clock, randomness, authorizer, class_resources=class_resources, way_in=way_in)
    )
