"""The discovery rows of what is served: verbs, names, categories and subresources, as Kubernetes publishes them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tarmac.api.kubernetes.servedresources import SERVED

Row = dict[str, Any]


def discovery_rows(kubernetes: Path) -> list[Row]:
    """One row per served resource, in the order of `SERVED`."""
    published = {**_core(kubernetes), **_groups(kubernetes), **METRICS_ROWS}
    return [
        {"group": group, "version": version, **published[group, version, plural]}
        for (group, version), plurals in SERVED.items()
        for plural in plurals
    ]


def _core(kubernetes: Path) -> dict[tuple[str, str, str], Row]:
    """The core group is published in the older form only: one flat list, `pods` beside `pods/log`."""
    listed = json.loads((kubernetes / "api/discovery/api__v1.json").read_bytes())["resources"]
    rows: dict[tuple[str, str, str], Row] = {}
    for item in listed:
        plural, _, subresource = item["name"].partition("/")
        if subresource:
            rows["", "v1", plural]["subresources"].append(_subresource(subresource, item, item))
        else:
            rows["", "v1", plural] = {
                "kind": item["kind"],
                "plural": plural,
                "singular": item["singularName"],
                "namespaced": item["namespaced"],
                "short_names": item.get("shortNames", []),
                "categories": item.get("categories", []),
                "verbs": item["verbs"],
                "subresources": [],
            }
    return rows


def _groups(kubernetes: Path) -> dict[tuple[str, str, str], Row]:
    aggregated = json.loads((kubernetes / "api/discovery/aggregated_v2.json").read_bytes())
    return {
        (group["metadata"]["name"], version["version"], item["resource"]): {
            "kind": item["responseKind"]["kind"],
            "plural": item["resource"],
            "singular": item["singularResource"],
            "namespaced": item["scope"] == "Namespaced",
            "short_names": item.get("shortNames", []),
            "categories": item.get("categories", []),
            "verbs": item["verbs"],
            "subresources": [
                _subresource(sub["subresource"], sub, sub.get("responseKind", {}))
                for sub in item.get("subresources", [])
            ],
        }
        for group in aggregated["items"]
        for version in group["versions"]
        for item in version["resources"]
    }


def _subresource(name: str, item: Row, kind: Row) -> Row:
    row: Row = {"name": name, "kind": kind["kind"], "verbs": item["verbs"]}
    # only where the kind is of another group than its parent
    if name in ("eviction", "token", "scale"):
        row |= {"group": kind["group"], "version": kind["version"]}
    return row


def _metrics(plural: str, kind: str, namespaced: bool) -> Row:
    return {
        "kind": kind,
        "plural": plural,
        "singular": "",
        "namespaced": namespaced,
        "short_names": [],
        "categories": [],
        "verbs": ["get", "list"],
        "subresources": [],
    }


METRICS_ROWS = {
    ("metrics.k8s.io", "v1beta1", "nodes"): _metrics("nodes", "NodeMetrics", namespaced=False),
    ("metrics.k8s.io", "v1beta1", "pods"): _metrics("pods", "PodMetrics", namespaced=True),
}
