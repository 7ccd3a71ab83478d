"""The server's admission chain, in Kubernetes' order."""

from __future__ import annotations

from tarmac.api.catalog import Catalog
from tarmac.base.clock import Clock
from tarmac.base.randomness import Randomness
from tarmac.server.admission.addresses.networkranges import NetworkOverlaps, NetworkRanges
from tarmac.server.admission.addresses.platformaddresses import PlatformAddresses
from tarmac.server.admission.addresses.serviceaddresses import ServiceAddresses
from tarmac.server.admission.chain import AdmissionChain, AdmissionPlugin
from tarmac.server.admission.controllers.heldannotations import InterfaceHolding, MachineHolding
from tarmac.server.admission.controllers.instancecreation import InstanceCreation
from tarmac.server.admission.controllers.stockcontrollers import StockControllers
from tarmac.server.admission.controllers.stockrestriction import StockControllerRestriction
from tarmac.server.admission.namespacelifecycle import NamespaceLifecycle
from tarmac.server.admission.nodes.localdisks import LocalDiskRemoval
from tarmac.server.admission.nodes.mirrorpods import MirrorPods
from tarmac.server.admission.nodes.nodeaddresses import NodeAddressAdmission
from tarmac.server.admission.nodes.noderestriction import NodeRestriction
from tarmac.server.admission.nodes.nodetaints import TaintNodesByCondition
from tarmac.server.admission.nodes.restoredconflicts import RestoredConflicts
from tarmac.server.admission.pods.antiaffinity import CrossNamespaceAntiAffinity
from tarmac.server.admission.pods.classresources import ClassResourceRejection, ClassResourceValidation
from tarmac.server.admission.pods.hostkernel import HostKernel
from tarmac.server.admission.pods.limitranges import LimitRanger
from tarmac.server.admission.pods.podsecurity.plugin import PodSecurity
from tarmac.server.admission.pods.podtopologylabels import PodTopologyLabels
from tarmac.server.admission.pods.priority import Priority
from tarmac.server.admission.pods.runtimeclasses import RuntimeClassAdmission
from tarmac.server.admission.pods.serviceaccounts import ServiceAccounts
from tarmac.server.admission.pods.tolerations import DefaultTolerationSeconds
from tarmac.server.admission.privileges.certificates import (
    CertificateApproval,
    CertificateRequester,
    CertificateSigning,
    CertificateSubjectRestriction,
    RevocationRestriction,
)
from tarmac.server.admission.privileges.consolerecording import ConsoleRecording
from tarmac.server.admission.privileges.creationrights import CreationRights
from tarmac.server.admission.privileges.rbacescalation import RbacEscalation
from tarmac.server.admission.quota.plugin import ResourceQuotas
from tarmac.server.admission.references.egressreferences import ExternalReferences
from tarmac.server.admission.references.ingressreferences import IngressReferences, IngressRejection
from tarmac.server.admission.references.workloadreferences import WorkloadReferences
from tarmac.server.admission.storage import (
    DefaultStorageClass,
    PersistentVolumeClaimResize,
    StorageObjectInUseProtection,
)
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
