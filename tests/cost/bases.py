"""One small valid object of every served kind, the base of the growing ones."""

from __future__ import annotations

from typing import Any

from tarmac.api.resource import Resource

Object = dict[str, Any]

_REF = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "view"}
_CONTAINER = {"name": "c", "image": "registry.example/app:1"}
_TEMPLATE: Object = {
    "spec": {
        "runtime": {
            "resources": {"instanceType": "datumcloud/d1-standard-2"},
            "sandbox": {"containers": [{"name": "c", "image": "registry.example/app:1"}]},
        },
        "networkInterfaces": [{"network": {"name": "default"}}],
    }
}
_SCALE = {"minReplicas": 1}
_NETWORK = {"network": {"name": "default"}, "location": {"name": "dfw"}}
_SUBNET = {"subnetClass": "private", "networkContext": {"name": "default-dfw"}, "location": {"name": "dfw"}}
_CEL = {"template": _TEMPLATE}

_PODS = {"metadata": {"labels": {"app": "x"}}, "spec": {"containers": [_CONTAINER]}}
_REPLICATED = {"spec": {"selector": {"matchLabels": {"app": "x"}}, "template": _PODS}}
_JOB = {"spec": {"template": {"spec": {"containers": [_CONTAINER], "restartPolicy": "Never"}}}}
_BACKEND = {"service": {"name": "x", "port": {"number": 80}}}
_TARGET = {"type": "Utilization", "averageUtilization": 50}
_PEER = {"ipBlock": {"cidr": "10.0.0.0/8", "except": ["10.1.0.0/16"]}}
# kinds of one plural in several groups or versions
_OF_VERSIONS: dict[str, Object] = {
    "networking.k8s.io/v1/networkpolicies": {
        "spec": {"podSelector": {}, "ingress": [{"from": [_PEER], "ports": [{"port": 80, "protocol": "TCP"}]}]}
    },
    "autoscaling/v1/horizontalpodautoscalers": {
        "spec": {
            "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "x"},
            "maxReplicas": 3,
            "targetCPUUtilizationPercentage": 50,
        }
    },
}

BASES: dict[str, Object] = {
    "cronjobs": {"spec": {"schedule": "0 * * * *", "jobTemplate": _JOB}},
    "daemonsets": _REPLICATED,
    "deployments": _REPLICATED,
    "horizontalpodautoscalers": {
        "spec": {
            "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "x"},
            "maxReplicas": 3,
            "metrics": [{"type": "Resource", "resource": {"name": "cpu", "target": _TARGET}}],
        }
    },
    "ingresses": {"spec": {"rules": [{"http": {"paths": [{"path": "/", "pathType": "Prefix", "backend": _BACKEND}]}}]}},
    "ingressclasses": {"spec": {"controller": "example.org/x"}},
    "jobs": _JOB,
    "replicasets": _REPLICATED,
    "replicationcontrollers": {"spec": {"selector": {"app": "x"}, "template": _PODS}},
    "podtemplates": {"template": _PODS},
    "statefulsets": _REPLICATED,
    "bindings": {"target": {"kind": "Node", "name": "n"}},
    "endpoints": {"subsets": [{"addresses": [{"ip": "10.1.0.1"}], "ports": [{"port": 80}]}]},
    "events": {"involvedObject": {"kind": "Pod", "name": "p", "namespace": "default"}, "reason": "x"},
    "events.k8s.io": {
        "eventTime": "2026-11-15T12:00:00.000000Z",
        "reportingController": "example.org/x",
        "reportingInstance": "x",
        "action": "x",
        "reason": "x",
        "type": "Normal",
        "regarding": {"kind": "Pod", "name": "p", "namespace": "default"},
    },
    "limitranges": {"spec": {"limits": [{"type": "Container", "max": {"cpu": "8"}}]}},
    "persistentvolumeclaims": {
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    },
    "persistentvolumes": {
        "spec": {"accessModes": ["ReadWriteOnce"], "capacity": {"storage": "1Gi"}, "hostPath": {"path": "/x"}}
    },
    "pods": {"spec": {"containers": [_CONTAINER]}},
    "resourcequotas": {"spec": {"hard": {"pods": "10"}}},
    "services": {"spec": {"ports": [{"port": 80}], "selector": {"app": "x"}}},
    "tokenreviews": {"spec": {"token": "x"}},
    "localsubjectaccessreviews": {
        "metadata": {"namespace": "default"},
        "spec": {"user": "x", "resourceAttributes": {"verb": "get", "resource": "pods", "namespace": "default"}},
    },
    "selfsubjectaccessreviews": {"spec": {"resourceAttributes": {"verb": "get", "resource": "pods"}}},
    "selfsubjectrulesreviews": {"spec": {"namespace": "default"}},
    "subjectaccessreviews": {"spec": {"user": "x", "resourceAttributes": {"verb": "get", "resource": "pods"}}},
    "certificatesigningrequests": {
        "spec": {"request": "", "signerName": "example.org/x", "usages": ["client auth"]},
    },
    "poddisruptionbudgets": {"spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "x"}}}},
    "clusterrolebindings": {"roleRef": _REF},
    "rolebindings": {"roleRef": _REF},
    "roles": {"rules": [{"verbs": ["get"], "apiGroups": [""], "resources": ["pods"]}]},
    "clusterroles": {"rules": [{"verbs": ["get"], "apiGroups": [""], "resources": ["pods"]}]},
    "csidrivers": {"spec": {"tokenRequests": [{"audience": "a"}]}},
    "csinodes": {"spec": {"drivers": [{"name": "example.com", "nodeID": "a", "topologyKeys": ["a"]}]}},
    "csistoragecapacities": {"storageClassName": "a", "capacity": "1Gi"},
    "volumeattachments": {
        "spec": {"attacher": "example.com", "nodeName": "a", "source": {"persistentVolumeName": "a"}}
    },
    "volumeattributesclasses": {"driverName": "example.com", "parameters": {"a": "b"}},
    "storageclasses": {"provisioner": "example.org/x"},
    "priorityclasses": {"value": 1},
    "runtimeclasses": {"handler": "x"},
    "endpointslices": {
        "addressType": "IPv4",
        "endpoints": [{"addresses": ["10.1.0.1"]}],
        "ports": [{"name": "x", "port": 80, "protocol": "TCP"}],
    },
    "workloads": {
        "spec": {"template": _TEMPLATE, "placements": [{"name": "p", "cityCodes": ["DFW"], "scaleSettings": _SCALE}]}
    },
    "workloaddeployments": {
        "spec": {
            "workloadRef": {"name": "w", "uid": "u"},
            "placementName": "p",
            "cityCode": "DFW",
            "template": _TEMPLATE,
            "scaleSettings": _SCALE,
        }
    },
    "instances": {"spec": _TEMPLATE["spec"]},
    "locations": {
        "spec": {
            "locationClassName": "self-managed",
            "topology": {"topology.datum.net/city-code": "DFW"},
            "provider": {"nodes": {}},
        }
    },
    "networks": {"spec": {"ipam": {"mode": "Auto"}}},
    "networkcontexts": {"spec": _NETWORK},
    "networkbindings": {"spec": _NETWORK},
    "networkpolicies": {"spec": {"selector": {}, "policyTypes": ["Ingress"], "ingress": [{"from": [], "ports": []}]}},
    "subnetclaims": {"spec": {**_SUBNET, "ipFamily": "IPv4"}},
    "subnets": {"spec": {**_SUBNET, "ipFamily": "IPv4", "startAddress": "10.1.0.0", "prefixLength": 24}},
    "externalservices": {
        "spec": {"targetIP": "192.0.2.1", "sources": [{"name": "x"}], "ports": [{"port": 80, "protocol": "TCP"}]}
    },
    "sourceips": {"spec": {"address": "192.0.2.1", "className": "x"}},
    "sourceipclaims": {"spec": {"className": "x"}},
    "sourceipclasses": {"spec": {"ranges": [{"cidr": "192.0.2.0/24"}]}},
    "addresspools": {"spec": {"ranges": [{"cidr": "203.0.113.0/24"}]}},
    "publicaddresses": {"spec": {"address": "203.0.113.1", "poolName": "x"}},
    "bgppeers": {"spec": {"address": "198.51.100.1", "asn": 65001, "localASN": 65000}},
}


def base(resource: Resource, name: str) -> Object:
    """Return a fresh object; a few are rejected, but each gets past decoding."""
    spec = BASES.get(resource.group if resource.group == "events.k8s.io" else resource.plural, {})
    spec = _OF_VERSIONS.get(f"{resource.api_version}/{resource.plural}", spec)
    metadata = {"name": name} if resource.stored else {}
    return {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": metadata} | spec
