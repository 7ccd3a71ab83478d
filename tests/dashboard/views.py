"""Every view of the page, by the address that opens it, on a planet with one workload."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from playwright.sync_api import Page, expect

from tests.dashboard.editing import paste
from tests.support.kubectl import kubectl_path
from tests.support.tarmac_process import TarmacProcess

EXAMPLE = Path(__file__).parents[2] / "examples" / "web.yaml"
POLICY = {
    "apiVersion": "networking.datumapis.com/v1alpha",
    "kind": "NetworkPolicy",
    "metadata": {"name": "vm-ssh", "namespace": "default"},
    "spec": {
        "selector": {"matchLabels": {"compute.datumapis.com/workload-name": "vm"}},
        "ingress": [{"ports": [{"port": 22}]}],
        "egress": [],
    },
}
VIEWS = {
    "planet": "#/planet",
    "workloads": "#/workloads",
    "workload": "#/workloads/default/web",
    "why": "#/workloads/default/web/why",
    "rollout": "#/workloads/default/web/rollout",
    "timeline": "#/workloads/default/web/timeline",
    "revisions": "#/workloads/default/web/revisions",
    "scaling": "#/workloads/default/web/scaling",
    "instances": "#/instances",
    "change": "#/change/default/web",
    "nodes": "#/nodes",
    "node": "#/nodes/dfw-0",
    "networks": "#/networks",
    "network": "#/networks/default/default",
    "subnets": "#/networks/default/default/subnets",
    "external": "#/external",
    "externalservice": "#/external/default/my-externalservice",
    "connections": "#/external/default/my-externalservice/connections",
    "no-externalservice": "#/external/default/nothing",
    "anything": "#/any",
    "object": "#/any/core/v1/namespaces/-/default",
    "refused": "#/any/core/v1/nothings",
}


STATES = ("mistake", "conflict", "preview", "revision", "ending", "palette", "keys")
"""States of views after an action of the user."""


def kubectl(planet: TarmacProcess, *words: str, stdin: str = "") -> str:
    command = [kubectl_path(), "--kubeconfig", str(planet.kubeconfig), *words]
    return subprocess.run(command, capture_output=True, text=True, check=True, input=stdin).stdout


@contextmanager
def removed_afterwards(planet: TarmacProcess, *objects: str) -> Generator[None]:
    """Delete objects (`workload/shop`) at the end, also when the test fails: the next test counts the objects."""
    try:
        yield
    finally:
        kubectl(planet, "delete", *objects, "--ignore-not-found")


def fill(planet: TarmacProcess) -> None:
    """Create the example."""
    kubectl(planet, "apply", "-f", str(EXAMPLE))
    kubectl(planet, "wait", "--for=condition=Ready", "workload/web", "--timeout=60s")


def revise(planet: TarmacProcess) -> None:
    """Create a second revision of the example."""
    change = [{"op": "add", "path": "/spec/template/metadata", "value": {"annotations": {"note": "second"}}}]
    kubectl(planet, "patch", "workload", "web", "--type=json", "-p", json.dumps(change))
    kubectl(planet, "wait", "--for=jsonpath={.status.rollout.revision}=2", "workload/web", "--timeout=60s")


def fill_with_everything(planet: TarmacProcess) -> None:
    """Create the example, one of an external service, and machines with a policy, which simulated nodes do not run."""
    kubectl(planet, "apply", "-f", "-", stdin=json.dumps(POLICY))
    kubectl(planet, "apply", "-f", str(EXAMPLE.parent / "externalservice.yaml"), "-f", str(EXAMPLE.parent / "vm.yaml"))
    fill(planet)
    kubectl(planet, "wait", "--for=condition=Ready", "workload/orders", "--timeout=60s")
    kubectl(planet, "wait", "--for=jsonpath={.status.replicas}=2", "workload/vm", "--timeout=60s")


def instance_of(planet: TarmacProcess, workload: str, namespace: str = "default") -> str:
    """The name of an instance."""
    select = f"compute.datumapis.com/workload-name={workload}"
    path = "jsonpath={.items[0].metadata.name}"
    return kubectl(planet, "get", "instances", "-n", namespace, "-l", select, "-o", path)


def tell(planet: TarmacProcess, kind: str, name: str, uid: str = "", version: str = "v1", **event: str) -> None:
    """Record an event about an object: about this one, if there is a uid. A Node is in no namespace."""
    about = {"apiVersion": version, "kind": kind, "name": name, "uid": uid}
    about |= {} if kind == "Node" else {"namespace": "default"}
    body = {"apiVersion": "v1", "kind": "Event", "metadata": {"generateName": "told-", "namespace": "default"}}
    kubectl(planet, "create", "-f", "-", stdin=json.dumps({**body, "involvedObject": about, **event}))


def instance_views(planet: TarmacProcess) -> dict[str, str]:
    """Return the addresses of an instance's views; the planet chooses its name."""
    web, orders, vm = (instance_of(planet, each) for each in ("web", "orders", "vm"))
    return {
        "ask": f"#/networks/default/default/ask?from={web}&to={orders}&port=8080&both=true",
        "instance": f"#/instances/default/{web}",
        "machine": f"#/instances/default/{vm}",
        "object-events": f"#/any/core/v1/pods/default/{web}/events",
        "events": f"#/instances/default/{web}/events",
        "logs": f"#/instances/default/{web}/logs?times=true",
        "terminal": f"#/instances/default/{web}/terminal",
        "console": f"#/instances/default/{vm}/terminal",
        "screen": f"#/instances/default/{vm}/screen",
        "recordings": f"#/instances/default/{vm}/recordings",
        "recording": f"#/instances/default/{vm}/recordings?session=abc",
        "no-recordings": f"#/instances/default/{web}/recordings",
    }


def show(page: Page, address: str) -> None:
    """Open a view and wait until it is loaded."""
    page.evaluate(f"location.hash = {address!r}")
    expect(page.locator("main h1")).to_be_visible()
    expect(page.get_by_text("Loading…")).to_have_count(0)
    expect(page.get_by_text("Connecting…")).to_have_count(0)
    expect(
        page.locator("main").locator("table, .cm-editor, .console, pre, ul, section, [role=alert], [role=status]").first
    ).to_be_visible()


_EDITS = {
    "mistake": ("sandbox:", "sandbx:"),
    "conflict": ("web:1", "web:2"),
    "preview": ("name: web\nspec", "name: shop\nspec"),
}


def reach(page: Page, state: str) -> None:
    """Bring a view into one of the states, from a page without a dialog."""
    if state in _EDITS:
        show(page, VIEWS["change"])
        paste(page, EXAMPLE.read_text().replace(*_EDITS[state]))
        page.keyboard.press("Control+Enter")
        said = page.locator("main [aria-live]")
        expect(said.locator("svg.map" if state == "preview" else "table, ul").first).to_be_visible()
    elif state == "revision":
        show(page, VIEWS["revisions"])
        page.get_by_role("button", name="Compare 1").click()
        expect(page.get_by_role("button", name="Undo to revision")).to_be_visible()
    elif state == "ending":
        show(page, VIEWS["workload"])
        page.get_by_role("button", name="Delete…").click()
        expect(page.get_by_label("Type web to go on")).to_be_visible()
    else:
        show(page, VIEWS["workload"])
        page.keyboard.press("Control+k" if state == "palette" else "?")
        expect(page.get_by_role("dialog")).to_be_visible()
