"""The size of a node in the page: a bar and a table with the ledger's own numbers, and the current usage."""

from __future__ import annotations

import json
import re
from collections.abc import Generator

import pytest
from playwright.sync_api import Page, Route, expect

from tests.dashboard.axe import wrong
from tests.dashboard.browser import browser_page, dashboard
from tests.dashboard.views import EXAMPLE, fill, instance_of, kubectl
from tests.support.tarmac_process import TarmacProcess

pytestmark = [pytest.mark.timeout(180)]
NODES = EXAMPLE.parent / "nodes" / "sim-nodes.yaml"
METRICS = "/apis/metrics.k8s.io/v1beta1/nodes/"
GPU = "datumcloud.com/nvidia-tesla-a100"


@pytest.fixture(scope="module")
def planet(tmp_path_factory: pytest.TempPathFactory) -> Generator[TarmacProcess]:
    folder = tmp_path_factory.mktemp("planet")
    config = folder / "nodes.yaml"
    config.write_text(f"{NODES.read_text()}unhealthyDevices: {{{GPU}: 1}}\n")
    flags = ("--runtime", "sim", "--sim-node-config", str(config))
    running = TarmacProcess(folder / "data", *flags, command="up").start()
    try:
        fill(running)
        yield running
    finally:
        running.stop()


@pytest.fixture
def page(planet: TarmacProcess) -> Generator[Page]:
    with dashboard(planet.kubeconfig) as address, browser_page() as made:
        made.clock.install()
        made.goto(address)
        expect(made.get_by_role("heading", name="Planet")).to_be_visible()
        yield made


def busy(planet: TarmacProcess) -> str:
    """Return a node with running instances."""
    return kubectl(planet, "get", "pods", "-o", "jsonpath={.items[0].spec.nodeName}")


def width(page: Page, segment: str) -> float:
    """Return the share of the bar of processors that a segment takes."""
    bar = page.locator("figure.ledger").filter(has_text=re.compile("^cpu: ")).locator("svg")
    return float(bar.locator(f".{segment}").get_attribute("width") or 0) / 600


def test_the_bar_and_the_table_have_the_ledgers_numbers(page: Page, planet: TarmacProcess, axe: str) -> None:
    node = busy(planet)
    page.evaluate("location.hash = '#/nodes'")
    row = page.get_by_role("row").filter(has=page.get_by_role("link", name=node, exact=True))
    expect(row).to_contain_text(re.compile(r"0\.1 of 7.*Mi of \S+Gi"))  # processors and memory, from the ledger
    page.get_by_role("link", name=node, exact=True).click()
    told = json.loads(kubectl(planet, "get", "--raw", f"/api/v1/nodes/{node}/ledger"))
    cpu = next(each for each in told["resources"] if each["resource"] == "cpu")
    assert (cpu["capacity"], cpu["oversubscription"], cpu["allocatable"]) == ("8", "1.000", "7")
    row = page.get_by_role("row", name=re.compile("^cpu 8 "))
    for cell in ("2 for system", cpu["oversubscription"], cpu["allocatable"], cpu["committed"]):
        expect(row).to_contain_text(cell)
    sentence = (
        "cpu: 8 in all; reserved: 2 for system; 1.000 of it oversubscribed; 7 for pods; exclusive: 0 of 6; committed: "
    )
    expect(page.get_by_role("img", name=re.compile(f"^{re.escape(sentence)}"))).to_be_visible()
    assert (width(page, "physical"), width(page, "reserved"), width(page, "oversubscribed")) == (1, 2 / 8, 1 / 8)
    assert 0 < width(page, "committed") < 1
    expect(page.get_by_role("row", name=re.compile("^slow blockio container 0 of 2"))).to_be_visible()
    conditions = page.get_by_role("region", name="Conditions", exact=True)
    expect(conditions.get_by_role("row", name=re.compile("^Ready True"))).to_be_visible()
    expect(conditions.get_by_role("row", name=re.compile("^MemoryPressure False"))).to_contain_text("● False")
    page.evaluate(axe)
    assert wrong(page) == []
    page.get_by_role("link", name="pods", exact=True).click()
    expect(page.get_by_role("link", name=re.compile("^web-"))).to_be_visible()
    expect(page.locator(".command")).to_contain_text(f"tarmac node report {node}")


def test_usage_is_plotted_while_one_looks_and_says_since_when(page: Page, planet: TarmacProcess) -> None:
    node = busy(planet)
    measured = [("06:00:00", "100m"), ("06:00:15", "400m"), ("06:00:15", "400m"), ("06:00:30", "200m")]
    measured += [("06:00:45", "300m"), ("06:01:00", "250m")]
    asked: list[str] = []

    def answer(route: Route) -> None:
        time, cpu = measured[min(len(asked), len(measured) - 1)]
        asked.append(time)
        body = {"timestamp": f"2026-11-17T{time}Z", "window": "15s", "usage": {"cpu": cpu, "memory": "64Mi"}}
        route.fulfill(json={"metadata": {"name": node}, **body})

    page.route(lambda url: METRICS in url, answer)
    page.evaluate(f"location.hash = '#/nodes/{node}'")
    usage = page.get_by_role("region", name="Usage")
    expect(usage).to_contain_text("cpu: 100m now; a chart after 5 measurements, 1 so far.")
    for count, said in ((2, "400m"), (3, "400m"), (4, "200m"), (5, "300m"), (6, "250m")):
        assert usage.get_by_role("img").count() == 0  # few points make no line
        page.clock.run_for(15_000)
        for _ in range(100):
            if len(asked) >= count:
                break
            page.wait_for_timeout(50)  # the response is on its way
        expect(usage).to_contain_text(f"cpu: {said} now")
    chart = usage.get_by_role("img", name=re.compile("^cpu: 250m now; between 100m and 400m .*, 5 measurements$"))
    expect(chart).to_be_visible()  # one of the six came twice
    expect(usage.get_by_role("img", name=re.compile("^memory: 64Mi now"))).to_be_visible()
    points = usage.locator("polyline").first.get_attribute("points") or ""
    assert len(points.split()) == 5
    page.evaluate("location.hash = '#/workloads'")
    expect(page.get_by_role("heading", name="Workloads")).to_be_visible()
    before = len(asked)
    page.clock.run_for(60_000)
    assert len(asked) == before


def test_a_chart_begins_with_the_minutes_that_the_server_keeps(page: Page, planet: TarmacProcess) -> None:
    node = busy(planet)

    def answer(route: Route) -> None:
        shown = route.fetch().json()
        assert shown["history"]["interval"] == "60s"  # of the server itself, which has not run for long enough
        assert shown["history"]["since"]
        times = [f"2026-11-17T06:0{minute}:00Z" for minute in range(5)]
        samples = [{"timestamp": time, "usage": {"cpu": "300m", "memory": "64Mi"}} for time in times]
        shown["timestamp"] = "2026-11-17T06:05:00Z"
        route.fulfill(json={**shown, "history": {**shown["history"], "samples": samples}})

    page.route(lambda url: METRICS in url, answer)
    page.evaluate(f"location.hash = '#/nodes/{node}'")
    usage = page.get_by_role("region", name="Usage")
    chart = usage.get_by_role("img", name=re.compile("^cpu: .* and 300m since .*, 6 measurements$"))
    expect(chart).to_be_visible()
    expect(usage).to_contain_text("The server keeps the last 30 minutes in memory")


@pytest.fixture(scope="module")
def trained(planet: TarmacProcess) -> str:
    """An instance with a GPU; its name."""
    resources = {"instanceType": "datumcloud/d1-custom", "requests": {"cpu": "1", "memory": "1Gi", GPU: "1"}}
    runtime = {"resources": resources, "sandbox": {"containers": [{"name": "main", "image": "example.com/train:1"}]}}
    template = {"spec": {"runtime": runtime, "networkInterfaces": [{"network": {"name": "default"}}]}}
    placement = {"name": "us", "cityCodes": ["DFW"], "scaleSettings": {"minReplicas": 1}}
    workload = {
        "apiVersion": "compute.datumapis.com/v1alpha", "kind": "Workload", "metadata": {"name": "train"},
        "spec": {"template": template, "placements": [placement]},
    }  # fmt: skip
    kubectl(planet, "create", "-f", "-", stdin=json.dumps(workload))
    kubectl(planet, "wait", "--for=condition=Ready", "workload/train", "--timeout=60s")
    return instance_of(planet, "train")


COUNTS = f"{GPU}: 2 in all, 1 unhealthy, 1 held, 0 free."


def test_gpus_of_a_node_have_health_and_holder_and_an_instance_names_its_gpu(
    page: Page, planet: TarmacProcess, trained: str, axe: str
) -> None:
    node = kubectl(planet, "get", "instance", trained, "-o", "jsonpath={.status.nodeName}")
    page.evaluate(f"location.hash = '#/nodes/{node}'")
    gpus = page.get_by_role("region", name="GPUs", exact=True)
    expect(gpus).to_contain_text(COUNTS)
    expect(gpus.get_by_role("row", name=re.compile("^0 NVIDIA A100"))).to_contain_text("Healthy")
    sick = gpus.get_by_role("row", name=re.compile("^1 NVIDIA A100"))
    expect(sick).to_contain_text("XID 79: GPU has fallen off the bus")
    conditions = page.get_by_role("region", name="Conditions", exact=True)
    expect(conditions.get_by_role("row", name=re.compile("^GPUsSandboxable"))).to_contain_text("● True")
    expect(page.locator(".headline")).to_contain_text("Ready")
    page.evaluate(axe)
    assert wrong(page) == []
    gpus.get_by_role("link", name=f"default/{trained}").click()
    expect(page.get_by_role("region", name="Overview")).to_contain_text("GPU 0, NVIDIA A100: 60% busy, 48 of 80Gi")


def test_a_user_without_the_metrics_of_nodes_sees_how_many_gpus_are_free(planet: TarmacProcess, trained: str) -> None:
    node = kubectl(planet, "get", "instance", trained, "-o", "jsonpath={.status.nodeName}")
    rule = {"apiGroups": [""], "resources": ["nodes", "nodes/ledger", "namespaces"], "verbs": ["get", "list", "watch"]}
    role = {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": "counter"}}
    kubectl(planet, "create", "-f", "-", stdin=json.dumps({**role, "rules": [rule]}))
    kubectl(planet, "create", "serviceaccount", "counter")
    kubectl(
        planet, "create", "clusterrolebinding", "counter", "--clusterrole=counter", "--serviceaccount=default:counter"
    )
    asked: list[str] = []
    with browser_page() as page:
        page.on("request", lambda request: asked.append(request.url))
        page.goto(f"{planet.url}/dashboard/#/nodes/{node}")
        page.get_by_label("A token").fill(kubectl(planet, "create", "token", "counter").strip())
        page.get_by_role("button", name="Sign in").click()
        gpus = page.get_by_role("region", name="GPUs", exact=True)
        expect(gpus).to_contain_text(COUNTS)
        expect(gpus).to_contain_text("The pods that have them are not known: You may not get nodes/proxy")
        assert not [each for each in asked if "/proxy/metrics" in each]


def test_a_user_without_the_ledger_sees_one_notice_and_the_rest(planet: TarmacProcess) -> None:
    node = busy(planet)
    rules = [
        {"apiGroups": [""], "resources": ["nodes", "pods", "namespaces"], "verbs": ["get", "list", "watch"]},
        {"apiGroups": ["metrics.k8s.io"], "resources": ["nodes"], "verbs": ["get"]},
    ]
    role = {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": "watcher"}}
    kubectl(planet, "create", "-f", "-", stdin=json.dumps({**role, "rules": rules}))
    kubectl(planet, "create", "serviceaccount", "watcher")
    kubectl(
        planet, "create", "clusterrolebinding", "watcher", "--clusterrole=watcher", "--serviceaccount=default:watcher"
    )
    refused: list[str] = []
    with browser_page() as page:
        page.clock.install()
        page.on("response", lambda answer: refused.extend([answer.url] if "/ledger?" in answer.url else []))
        page.goto(f"{planet.url}/dashboard/#/nodes/{node}")
        page.get_by_label("A token").fill(kubectl(planet, "create", "token", "watcher").strip())
        page.get_by_role("button", name="Sign in").click()
        expect(page.get_by_role("alert")).to_contain_text("You don't have permission to see this")
        expect(page.get_by_role("region", name="Usage")).to_contain_text("now;")
        expect(page.get_by_role("rowheader", name="MemoryPressure")).to_be_visible()
        page.clock.run_for(60_000)
        expect(page.get_by_role("region", name="Usage")).to_contain_text("measurements")
        assert len(refused) == 1
