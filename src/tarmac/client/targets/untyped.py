"""Resources whose objects are decoded JSON: those of Kubernetes, and Tarmac's own for readers of a few fields."""

from __future__ import annotations

from tarmac.api.compute.names import API_VERSION as COMPUTE
from tarmac.api.egress.names import API_VERSION as SUBMARINER
from tarmac.api.networking.names import API_VERSION as NETWORKING
from tarmac.client.targets.target import dynamic

NAMESPACES = dynamic("v1", "namespaces", "Namespace", namespaced=False)
NODES = dynamic("v1", "nodes", "Node", namespaced=False)
PODS = dynamic("v1", "pods", "Pod")
SECRETS = dynamic("v1", "secrets", "Secret")
CONFIG_MAPS = dynamic("v1", "configmaps", "ConfigMap")
SERVICE_ACCOUNTS = dynamic("v1", "serviceaccounts", "ServiceAccount")
EVENTS = dynamic("v1", "events", "Event")
VOLUMES = dynamic("v1", "persistentvolumes", "PersistentVolume", namespaced=False)
VOLUME_CLAIMS = dynamic("v1", "persistentvolumeclaims", "PersistentVolumeClaim")
POD_ENDPOINTS = dynamic(NETWORKING, "podendpoints", "PodEndpoint")
TUNNEL_ENDPOINTS = dynamic(NETWORKING, "tunnelendpoints", "TunnelEndpoint", namespaced=False)
LEASES = dynamic("coordination.k8s.io/v1", "leases", "Lease")
CERTIFICATE_REQUESTS = dynamic(
    "certificates.k8s.io/v1", "certificatesigningrequests", "CertificateSigningRequest", namespaced=False
)
ACCESS_REVIEWS = dynamic("authorization.k8s.io/v1", "subjectaccessreviews", "SubjectAccessReview", namespaced=False)
LOCAL_ACCESS_REVIEWS = dynamic("authorization.k8s.io/v1", "localsubjectaccessreviews", "LocalSubjectAccessReview")
SERVICES = dynamic("v1", "services", "Service")
ENDPOINTS = dynamic("v1", "endpoints", "Endpoints")
IP_ADDRESSES = dynamic("networking.k8s.io/v1", "ipaddresses", "IPAddress", namespaced=False)
SERVICE_CIDRS = dynamic("networking.k8s.io/v1", "servicecidrs", "ServiceCIDR", namespaced=False)
RESOURCE_QUOTAS = dynamic("v1", "resourcequotas", "ResourceQuota")
ENDPOINT_SLICES = dynamic("discovery.k8s.io/v1", "endpointslices", "EndpointSlice")
BUDGETS = dynamic("policy/v1", "poddisruptionbudgets", "PodDisruptionBudget")
RUNTIME_CLASSES = dynamic("node.k8s.io/v1", "runtimeclasses", "RuntimeClass", namespaced=False)
STORAGE_CLASSES = dynamic("storage.k8s.io/v1", "storageclasses", "StorageClass", namespaced=False)
CLUSTER_ROLES = dynamic("rbac.authorization.k8s.io/v1", "clusterroles", "ClusterRole", namespaced=False)
TOKEN_REVIEWS = dynamic("authentication.k8s.io/v1", "tokenreviews", "TokenReview", namespaced=False)
NODE_METRICS = dynamic("metrics.k8s.io/v1beta1", "nodes", "NodeMetrics", namespaced=False)
POD_METRICS = dynamic("metrics.k8s.io/v1beta1", "pods", "PodMetrics")
CONTROLLER_REVISIONS = dynamic("apps/v1", "controllerrevisions", "ControllerRevision")
DAEMON_SETS = dynamic("apps/v1", "daemonsets", "DaemonSet")
KUBERNETES_DEPLOYMENTS = dynamic("apps/v1", "deployments", "Deployment")
REPLICA_SETS = dynamic("apps/v1", "replicasets", "ReplicaSet")
STATEFUL_SETS = dynamic("apps/v1", "statefulsets", "StatefulSet")
CRON_JOBS = dynamic("batch/v1", "cronjobs", "CronJob")
JOBS = dynamic("batch/v1", "jobs", "Job")
REPLICATION_CONTROLLERS = dynamic("v1", "replicationcontrollers", "ReplicationController")
WORKLOADS = dynamic(COMPUTE, "workloads", "Workload")
DEPLOYMENTS = dynamic(COMPUTE, "workloaddeployments", "WorkloadDeployment")
INSTANCES = dynamic(COMPUTE, "instances", "Instance")
LOCATIONS = dynamic(NETWORKING, "locations", "Location", namespaced=False)
NETWORKS = dynamic(NETWORKING, "networks", "Network")
NETWORK_POLICIES = dynamic(NETWORKING, "networkpolicies", "NetworkPolicy")
KUBERNETES_POLICIES = dynamic("networking.k8s.io/v1", "networkpolicies", "NetworkPolicy")
EXTERNAL_SERVICES = dynamic(SUBMARINER, "externalservices", "ExternalService")
SOURCE_IPS = dynamic(SUBMARINER, "sourceips", "SourceIP", namespaced=False)
SOURCE_IP_CLAIMS = dynamic(SUBMARINER, "sourceipclaims", "SourceIPClaim")
SOURCE_IP_CLASSES = dynamic(SUBMARINER, "sourceipclasses", "SourceIPClass", namespaced=False)
