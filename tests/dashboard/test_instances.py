"""An instance in the page: its parts, its current usage, and events of it and of its Pod."""

from __future__ import annotations

import json
import re
from collections.abc import Generator

import pytest
from playwright.sync_api import Page, Route, expect

from tests.dashboard.browser import browser_page, dashboard
from tests.dashboard.views import POLICY, instance_of, kubectl, removed_afterwards, tell
from tests.support.tarmac_process import TarmacProcess

pytestmark = [pytest.mark.timeout(180)]


@pytest.fixture(scope="module")
def instance(full_planet: TarmacProcess) -> str:
    return instance_of(full_planet, "web")


@pytest.fixture
def page(full_planet: TarmacProcess) -> Generator[Page]:
    with dashboard(full_planet.kubeconfig) as address, browser_page() as made:
        made.clock.install()
        made.goto(address)
        expect(made.get_by_role("heading", name="Planet")).to_be_visible()
        yield made


def field(planet: TarmacProcess, instance: str, path: str) -> str:
    return kubectl(planet, "get", "instance", instance, "-o", f"jsonpath={{{path}}}")


def test_the_overview_shows_all_parts_of_an_instance(page: Page, full_planet: TarmacProcess) -> None:
    orders = instance_of(full_planet, "orders")
    page.evaluate(f"location.hash = '#/instances/default/{orders}'")
    overview = page.get_by_role("region", name="Overview")
    node = field(full_planet, orders, ".status.nodeName")
    address = field(full_planet, orders, ".status.networkInterfaces[0].addresses[0].address")
    expect(overview).to_contain_text(f"● {field(full_planet, orders, '.status.summary.status')} for ")
    expect(overview).to_contain_text(f"{node} in {node[:3].upper()}")
    expect(overview).to_contain_text(f"eth0 on default/default: {address}")
    expect(overview).to_contain_text("None selects it: every instance on its networks reaches it.")
    expect(overview).to_contain_text(field(full_planet, orders, ".spec.runtime.resources.instanceType"))
    expect(overview).to_contain_text(re.compile(r"cpu \S+, memory \S+"))
    expect(overview).to_contain_text("None is asked for.")
    overview.get_by_role("link", name=node).click()
    expect(page.get_by_role("heading", name=node)).to_be_visible()


def test_a_machine_has_disks_with_their_claims_and_a_policy_that_selects_it(
    page: Page, full_planet: TarmacProcess
) -> None:
    vm = instance_of(full_planet, "vm")
    page.evaluate(f"location.hash = '#/instances/default/{vm}'")
    overview = page.get_by_role("region", name="Overview")
    expect(overview).to_contain_text("● Running for ")
    expect(overview).to_contain_text("boot: disk from image tarmac/tiny in the machine as a device")
    claim = f"#/any/core/v1/persistentvolumeclaims/default/{vm}-logs"
    expect(overview.get_by_role("link", name="disk 10Gi ext4")).to_have_attribute("href", claim)
    expect(overview).to_contain_text("machine: cpu 1, memory 256Mi")
    expect(overview).to_contain_text("vm-ssh limits what comes in and what goes out")
    overview.get_by_role("link", name="vm-ssh").click()
    expect(page.locator("pre")).to_contain_text("kind: NetworkPolicy")


def test_policies_come_and_go_while_one_looks(page: Page, full_planet: TarmacProcess) -> None:
    page.evaluate(f"location.hash = '#/instances/default/{instance_of(full_planet, 'orders')}'")
    overview = page.get_by_role("region", name="Overview")
    expect(overview).to_contain_text("None selects it")
    spec = {"selector": {"matchExpressions": [{"key": "compute.datumapis.com/workload-name", "operator": "Exists"}]}}
    passing = {**POLICY, "metadata": {"name": "passing", "namespace": "default"}, "spec": spec}
    with removed_afterwards(full_planet, "networkpolicies.networking.datumapis.com/passing"):
        kubectl(full_planet, "create", "-f", "-", stdin=json.dumps(passing))
        page.clock.run_for(5000)
        expect(overview).to_contain_text(re.compile("passing limits what comes in(?! and)"))
    page.clock.run_for(5000)
    expect(overview).to_contain_text("None selects it")


def test_classes_are_those_asked_for_and_those_that_the_node_says_are_in_effect(page: Page, instance: str) -> None:
    def answer(route: Route) -> None:
        pod = route.fetch().json()
        pod["metadata"]["annotations"]["blockio.resources.alpha.kubernetes.io/default"] = "slow"
        pod["status"]["containerStatuses"][0]["resources"] = {"classes": {"blockio": "slow", "rdt": ""}}
        route.fulfill(json=pod)

    page.route(f"**/api/v1/namespaces/default/pods/{instance}?*", answer)
    page.evaluate(f"location.hash = '#/instances/default/{instance}'")
    overview = page.get_by_role("region", name="Overview")
    for line in ("it asks for blockio slow", "web is in blockio slow", "web is in no class of rdt"):
        expect(overview.get_by_text(line, exact=True)).to_be_visible()


def test_usage_of_all_its_containers_is_plotted_every_15_seconds_while_shown(page: Page, instance: str) -> None:
    asked: list[str] = []

    def answer(route: Route) -> None:
        asked.append(route.request.url)
        time = f"2026-11-17T06:{len(asked):02}:00Z"
        used = [{"name": each, "usage": {"cpu": f"{100 * len(asked)}m", "memory": "32Mi"}} for each in ("web", "log")]
        route.fulfill(json={"timestamp": time, "window": "15s", "containers": used})

    page.route(f"**/metrics.k8s.io/v1beta1/namespaces/default/pods/{instance}?*", answer)
    page.evaluate(f"location.hash = '#/instances/default/{instance}'")
    usage = page.get_by_role("region", name="Usage")
    expect(usage).to_contain_text("since the page was opened")
    expect(usage).to_contain_text("cpu: 200m now, limit 100m; a chart after 5 measurements, 1 so far.")
    expect(usage.get_by_role("img")).to_have_count(0)  # few points make no line
    for count in range(2, 6):
        page.clock.run_for(15_000)
        expect(usage).to_contain_text(f"cpu: {200 * count}m now")
    expect(usage.get_by_role("img", name=re.compile("^cpu: 1000m now, .*between 200m and 1000m"))).to_be_visible()
    expect(usage.get_by_role("img", name=re.compile("^memory: 64Mi now, .*, 5 measurements$"))).to_be_visible()
    page.get_by_role("link", name="events", exact=True).click()
    expect(page.locator("main .tabs [aria-current]")).to_have_text("events")
    before = len(asked)
    page.clock.run_for(60_000)
    assert len(asked) == before


def test_measured_usage_is_plotted_and_missing_usage_is_named(page: Page, instance: str) -> None:
    page.evaluate(f"location.hash = '#/instances/default/{instance}'")
    expect(page.get_by_role("region", name="Usage")).to_contain_text(re.compile("cpu: .* now"))
    page.route("**/metrics.k8s.io/**", lambda route: route.fulfill(status=404, body="{}"))
    page.evaluate(f"location.hash = '#/instances/default/{instance}/logs'")
    page.evaluate(f"location.hash = '#/instances/default/{instance}'")
    expect(page.get_by_role("region", name="Usage")).to_contain_text("No measurements yet.")


def test_its_events_and_those_of_its_pod_are_there_the_newest_first(
    page: Page, instance: str, full_planet: TarmacProcess
) -> None:
    tell(full_planet, "Instance", instance, reason="Older", message="m", lastTimestamp="2030-01-01T00:00:00Z")
    tell(
        full_planet, "Pod", instance, reason="Newer", message="m", lastTimestamp="2030-01-01T00:00:01Z", type="Warning"
    )
    tell(full_planet, "Node", instance, reason="Foreign", message="m", lastTimestamp="2030-01-01T00:00:02Z")
    page.evaluate(f"location.hash = '#/instances/default/{instance}/events'")
    rows = page.get_by_role("region", name="Events, scrolls").locator("tbody tr")
    expect(rows.nth(0)).to_contain_text(re.compile(f"Pod {instance}.*✕ Newer"))
    expect(rows.nth(1)).to_contain_text(re.compile(f"Instance {instance}.*Older"))
    expect(page.get_by_text("Foreign")).to_have_count(0)
    expect(page.locator("main .command code")).to_have_text(f"kubectl events --for instance/{instance} -n default")
    tell(full_planet, "Instance", instance, reason="Newest", message="m", lastTimestamp="2030-01-01T00:00:03Z")
    page.clock.run_for(5000)
    expect(rows.nth(0)).to_contain_text("Newest")
