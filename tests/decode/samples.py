"""Objects as a real kube-apiserver 1.35.8 sent them, in protobuf (base64) and in JSON."""

from __future__ import annotations

from typing import Any

# plural -> (group, protobuf, JSON)
SAMPLES: dict[str, tuple[str, str, dict[str, Any]]] = {
    "secrets": (
        "",
        "azhzAAoMCgJ2MRIGU2VjcmV0EtcBCrQBCgFzEgAaAmgxIgAqJDViYmE5YzA4LWI4OTUtNGMzMi04NWE0LTIxNzUzZThkZWQ5MjID"
        "Mzg3OABCCAiU0ubXBhAAigFvCg1QeXRob24tdXJsbGliEgZVcGRhdGUaAnYxIggIlNLm1wYQADIIRmllbGRzVjE6PAo6eyJmOmRh"
        "dGEiOnsiLiI6e30sImY6YSI6e30sImY6YiI6e30sImY6YyI6e319LCJmOnR5cGUiOnt9fUIAEgcKAWESAmhpEgUKAWISABIGCgFj"
        "EgFkGgZPcGFxdWUaACIA",
        {
            "kind": "Secret",
            "apiVersion": "v1",
            "metadata": {
                "name": "s",
                "namespace": "h1",
                "uid": "5bba9c08-b895-4c32-85a4-21753e8ded92",
                "resourceVersion": "387",
                "creationTimestamp": "2026-11-15T12:44:04Z",
                "managedFields": [
                    {
                        "manager": "Python-urllib",
                        "operation": "Update",
                        "apiVersion": "v1",
                        "time": "2026-11-15T12:44:04Z",
                        "fieldsType": "FieldsV1",
                        "fieldsV1": {"f:data": {".": {}, "f:a": {}, "f:b": {}, "f:c": {}}, "f:type": {}},
                    }
                ],
            },
            "data": {"a": "aGk=", "b": "", "c": "ZA=="},
            "type": "Opaque",
        },
    ),
    "events": (
        "",
        "azhzAAoLCgJ2MRIFRXZlbnQS6wEKtAEKAWUSABoCaDEiACokMmRmNzExYzUtODA5MS00ZjgzLWFiMjktMDNkYjM4YjIwMjAzMgMz"
        "ODg4AEIICJTS5tcGEACKAW8KDVB5dGhvbi11cmxsaWISBlVwZGF0ZRoCdjEiCAiU0ubXBhAAMghGaWVsZHNWMTo8Cjp7ImY6Y291"
        "bnQiOnt9LCJmOmZpcnN0VGltZXN0YW1wIjp7fSwiZjppbnZvbHZlZE9iamVjdCI6e319QgASEAoAEgJoMRoAIgAqADIAOgAaACIA"
        "KgQKABIAMggIgMKv8AUQADoAQANKAFIAYgByAHoAGgAiAA==",
        {
            "kind": "Event",
            "apiVersion": "v1",
            "metadata": {
                "name": "e",
                "namespace": "h1",
                "uid": "2df711c5-8091-4f83-ab29-03db38b20203",
                "resourceVersion": "388",
                "creationTimestamp": "2026-11-15T12:44:04Z",
                "managedFields": [
                    {
                        "manager": "Python-urllib",
                        "operation": "Update",
                        "apiVersion": "v1",
                        "time": "2026-11-15T12:44:04Z",
                        "fieldsType": "FieldsV1",
                        "fieldsV1": {"f:count": {}, "f:firstTimestamp": {}, "f:involvedObject": {}},
                    }
                ],
            },
            "involvedObject": {"namespace": "h1"},
            "source": {},
            "firstTimestamp": "2020-01-01T00:00:00Z",
            "lastTimestamp": None,
            "count": 3,
            "eventTime": None,
            "reportingComponent": "",
            "reportingInstance": "",
        },
    ),
    "leases": (
        "coordination.k8s.io",
        "azhzAAofChZjb29yZGluYXRpb24uazhzLmlvL3YxEgVMZWFzZRL0AQreAQoBbBIAGgJoMSIAKiQ2OGI0YjliMi1mYzY5LTRmOTkt"
        "ODFlYi00OTBlMDI2ZDM0NDgyAzM4OTgAQggIlNLm1wYQAIoBmAEKDVB5dGhvbi11cmxsaWISBlVwZGF0ZRoWY29vcmRpbmF0aW9u"
        "Lms4cy5pby92MSIICJTS5tcGEAAyCEZpZWxkc1YxOlEKT3siZjpzcGVjIjp7ImY6aG9sZGVySWRlbnRpdHkiOnt9LCJmOmxlYXNl"
        "RHVyYXRpb25TZWNvbmRzIjp7fSwiZjpyZW5ld1RpbWUiOnt9fX1CABIRCgF4EA8iCgiAwq/wBRD4wAcaACIA",
        {
            "kind": "Lease",
            "apiVersion": "coordination.k8s.io/v1",
            "metadata": {
                "name": "l",
                "namespace": "h1",
                "uid": "68b4b9b2-fc69-4f99-81eb-490e026d3448",
                "resourceVersion": "389",
                "creationTimestamp": "2026-11-15T12:44:04Z",
                "managedFields": [
                    {
                        "manager": "Python-urllib",
                        "operation": "Update",
                        "apiVersion": "coordination.k8s.io/v1",
                        "time": "2026-11-15T12:44:04Z",
                        "fieldsType": "FieldsV1",
                        "fieldsV1": {
                            "f:spec": {"f:holderIdentity": {}, "f:leaseDurationSeconds": {}, "f:renewTime": {}}
                        },
                    }
                ],
            },
            "spec": {"holderIdentity": "x", "leaseDurationSeconds": 15, "renewTime": "2020-01-01T00:00:00.000123Z"},
        },
    ),
    "poddisruptionbudgets": (
        "policy",
        "azhzAAogCglwb2xpY3kvdjESE1BvZERpc3J1cHRpb25CdWRnZXQS1wEKsQEKAXASABoCaDEiACokZjMzM2UzNmMtODFmMy00Mzg4"
        "LWFkMTktZTYzODNiMGI2OGNjMgMzOTE4AUIICJTS5tcGEACKAWwKDVB5dGhvbi11cmxsaWISBlVwZGF0ZRoJcG9saWN5L3YxIggI"
        "lNLm1wYQADIIRmllbGRzVjE6MgoweyJmOnNwZWMiOnsiZjptaW5BdmFpbGFibGUiOnt9LCJmOnNlbGVjdG9yIjp7fX19QgASFQoJ"
        "CAEQABoDNTAlEggKBgoBYRIBYhoKCAAYACAAKAAwABoAIgA=",
        {
            "kind": "PodDisruptionBudget",
            "apiVersion": "policy/v1",
            "metadata": {
                "name": "p",
                "namespace": "h1",
                "uid": "f333e36c-81f3-4388-ad19-e6383b0b68cc",
                "resourceVersion": "391",
                "generation": 1,
                "creationTimestamp": "2026-11-15T12:44:04Z",
                "managedFields": [
                    {
                        "manager": "Python-urllib",
                        "operation": "Update",
                        "apiVersion": "policy/v1",
                        "time": "2026-11-15T12:44:04Z",
                        "fieldsType": "FieldsV1",
                        "fieldsV1": {"f:spec": {"f:minAvailable": {}, "f:selector": {}}},
                    }
                ],
            },
            "spec": {"minAvailable": "50%", "selector": {"matchLabels": {"a": "b"}}},
            "status": {"disruptionsAllowed": 0, "currentHealthy": 0, "desiredHealthy": 0, "expectedPods": 0},
        },
    ),
    "endpointslices": (
        "discovery.k8s.io",
        "azhzAAokChNkaXNjb3ZlcnkuazhzLmlvL3YxEg1FbmRwb2ludFNsaWNlEuEBCr4BCgJlcxIAGgJoMSIAKiRkNGFmZDQwNi1kYmUw"
        "LTQ5NTQtOTAxYy04NzdlZTc2YWI5ZjgyAzM5MjgBQggIlNLm1wYQAIoBeAoNUHl0aG9uLXVybGxpYhIGVXBkYXRlGhNkaXNjb3Zl"
        "cnkuazhzLmlvL3YxIggIlNLm1wYQADIIRmllbGRzVjE6NAoyeyJmOmFkZHJlc3NUeXBlIjp7fSwiZjplbmRwb2ludHMiOnt9LCJm"
        "OnBvcnRzIjp7fX1CABINCgcxLjIuMy40EgIIABoJCgASA1RDUBhQIgRJUHY0GgAiAA==",
        {
            "kind": "EndpointSlice",
            "apiVersion": "discovery.k8s.io/v1",
            "metadata": {
                "name": "es",
                "namespace": "h1",
                "uid": "d4afd406-dbe0-4954-901c-877ee76ab9f8",
                "resourceVersion": "392",
                "generation": 1,
                "creationTimestamp": "2026-11-15T12:44:04Z",
                "managedFields": [
                    {
                        "manager": "Python-urllib",
                        "operation": "Update",
                        "apiVersion": "discovery.k8s.io/v1",
                        "time": "2026-11-15T12:44:04Z",
                        "fieldsType": "FieldsV1",
                        "fieldsV1": {"f:addressType": {}, "f:endpoints": {}, "f:ports": {}},
                    }
                ],
            },
            "addressType": "IPv4",
            "endpoints": [{"addresses": ["1.2.3.4"], "conditions": {"ready": False}}],
            "ports": [{"name": "", "protocol": "TCP", "port": 80}],
        },
    ),
    "services": (
        "",
        "azhzAAoNCgJ2MRIHU2VydmljZRLYBArAAwoBcxIAGgJoMSIAKiQwZmQwNjM5Ny02OWIxLTRiNzItOGRjMy0wNTVjYzk4OTUxZWEy"
        "AzM4NjgAQggIlNLm1wYQAIoB+gIKDVB5dGhvbi11cmxsaWISBlVwZGF0ZRoCdjEiCAiU0ubXBhAAMghGaWVsZHNWMTrGAgrDAnsi"
        "ZjpzcGVjIjp7ImY6aW50ZXJuYWxUcmFmZmljUG9saWN5Ijp7fSwiZjpwb3J0cyI6eyIuIjp7fSwiazp7XCJwb3J0XCI6ODAsXCJw"
        "cm90b2NvbFwiOlwiVENQXCJ9Ijp7Ii4iOnt9LCJmOm5hbWUiOnt9LCJmOnBvcnQiOnt9LCJmOnByb3RvY29sIjp7fSwiZjp0YXJn"
        "ZXRQb3J0Ijp7fX0sIms6e1wicG9ydFwiOjgxLFwicHJvdG9jb2xcIjpcIlRDUFwifSI6eyIuIjp7fSwiZjpuYW1lIjp7fSwiZjpw"
        "b3J0Ijp7fSwiZjpwcm90b2NvbCI6e30sImY6dGFyZ2V0UG9ydCI6e319fSwiZjpzZWxlY3RvciI6e30sImY6c2Vzc2lvbkFmZmlu"
        "aXR5Ijp7fSwiZjp0eXBlIjp7fX19QgASjgEKGAoBYRIDVENQGFAiCggBEAAaBGh0dHAoAAoVCgFiEgNUQ1AYUSIHCAAQkT8aACgA"
        "EgYKAWESAWIaCzEwLjk2LjE2MS43IglDbHVzdGVySVA6BE5vbmVCAFIAWgBgAGgAigELU2luZ2xlU3RhY2uSAQsxMC45Ni4xNjEu"
        "N5oBBElQdjSyAQdDbHVzdGVyGgIKABoAIgA=",
        {
            "kind": "Service",
            "apiVersion": "v1",
            "metadata": {
                "name": "s",
                "namespace": "h1",
                "uid": "0fd06397-69b1-4b72-8dc3-055cc98951ea",
                "resourceVersion": "386",
                "creationTimestamp": "2026-11-15T12:44:04Z",
                "managedFields": [
                    {
                        "manager": "Python-urllib",
                        "operation": "Update",
                        "apiVersion": "v1",
                        "time": "2026-11-15T12:44:04Z",
                        "fieldsType": "FieldsV1",
                        "fieldsV1": {
                            "f:spec": {
                                "f:internalTrafficPolicy": {},
                                "f:ports": {
                                    ".": {},
                                    'k:{"port":80,"protocol":"TCP"}': {
                                        ".": {},
                                        "f:name": {},
                                        "f:port": {},
                                        "f:protocol": {},
                                        "f:targetPort": {},
                                    },
                                    'k:{"port":81,"protocol":"TCP"}': {
                                        ".": {},
                                        "f:name": {},
                                        "f:port": {},
                                        "f:protocol": {},
                                        "f:targetPort": {},
                                    },
                                },
                                "f:selector": {},
                                "f:sessionAffinity": {},
                                "f:type": {},
                            }
                        },
                    }
                ],
            },
            "spec": {
                "ports": [
                    {"name": "a", "protocol": "TCP", "port": 80, "targetPort": "http"},
                    {"name": "b", "protocol": "TCP", "port": 81, "targetPort": 8081},
                ],
                "selector": {"a": "b"},
                "clusterIP": "10.96.161.7",
                "clusterIPs": ["10.96.161.7"],
                "type": "ClusterIP",
                "sessionAffinity": "None",
                "ipFamilies": ["IPv4"],
                "ipFamilyPolicy": "SingleStack",
                "internalTrafficPolicy": "Cluster",
            },
            "status": {"loadBalancer": {}},
        },
    ),
    "priorityclasses": (
        "scheduling.k8s.io",
        "azhzAAolChRzY2hlZHVsaW5nLms4cy5pby92MRINUHJpb3JpdHlDbGFzcxLbAQqzAQoEaDFwYxIAGgAiACokZWU1YmFiYzAtMzhm"
        "My00MjU3LWI5MzQtNmVmMmUzMDJlMzI4MgMzOTY4AUIICJTS5tcGEACKAW0KDVB5dGhvbi11cmxsaWISBlVwZGF0ZRoUc2NoZWR1"
        "bGluZy5rOHMuaW8vdjEiCAiU0ubXBhAAMghGaWVsZHNWMTooCiZ7ImY6cHJlZW1wdGlvblBvbGljeSI6e30sImY6dmFsdWUiOnt9"
        "fUIAEPv//////////wEYACIAKhRQcmVlbXB0TG93ZXJQcmlvcml0eRoAIgA=",
        {
            "kind": "PriorityClass",
            "apiVersion": "scheduling.k8s.io/v1",
            "metadata": {
                "name": "h1pc",
                "uid": "ee5babc0-38f3-4257-b934-6ef2e302e328",
                "resourceVersion": "396",
                "generation": 1,
                "creationTimestamp": "2026-11-15T12:44:04Z",
                "managedFields": [
                    {
                        "manager": "Python-urllib",
                        "operation": "Update",
                        "apiVersion": "scheduling.k8s.io/v1",
                        "time": "2026-11-15T12:44:04Z",
                        "fieldsType": "FieldsV1",
                        "fieldsV1": {"f:preemptionPolicy": {}, "f:value": {}},
                    }
                ],
            },
            "value": -5,
            "preemptionPolicy": "PreemptLowerPriority",
        },
    ),
    "limitranges": (
        "",
        "azhzAAoQCgJ2MRIKTGltaXRSYW5nZRK/AQqVAQoCbHISABoCaDEiACokN2FlMThiODMtYTZhZS00ZjI4LWJkYzctZDc4NGZkZGI4"
        "NDJiMgMzOTU4AEIICJTS5tcGEACKAU8KDVB5dGhvbi11cmxsaWISBlVwZGF0ZRoCdjEiCAiU0ubXBhAAMghGaWVsZHNWMTocChp7"
        "ImY6c3BlYyI6eyJmOmxpbWl0cyI6e319fUIAEiUKIwoJQ29udGFpbmVyIgoKA2NwdRIDCgExKgoKA2NwdRIDCgExGgAiAA==",
        {
            "kind": "LimitRange",
            "apiVersion": "v1",
            "metadata": {
                "name": "lr",
                "namespace": "h1",
                "uid": "7ae18b83-a6ae-4f28-bdc7-d784fddb842b",
                "resourceVersion": "395",
                "creationTimestamp": "2026-11-15T12:44:04Z",
                "managedFields": [
                    {
                        "manager": "Python-urllib",
                        "operation": "Update",
                        "apiVersion": "v1",
                        "time": "2026-11-15T12:44:04Z",
                        "fieldsType": "FieldsV1",
                        "fieldsV1": {"f:spec": {"f:limits": {}}},
                    }
                ],
            },
            "spec": {"limits": [{"type": "Container", "default": {"cpu": "1"}, "defaultRequest": {"cpu": "1"}}]},
        },
    ),
}
