"""Working in the page, on a simulated planet: mistakes, conflicts, undo, deletion; and navigation."""

from __future__ import annotations

import json
import re
from collections.abc import Generator

import pytest
from playwright.sync_api import Page, expect

from tests.dashboard.browser import browser_page, dashboard
from tests.dashboard.editing import editor, paste
from tests.dashboard.views import EXAMPLE, fill, kubectl
from tests.support.tarmac_process import TarmacProcess

pytestmark = [pytest.mark.timeout(180)]
HOSTILE = '<img src=x onerror="document.title=1">\u202egnp.exe'
WEB = EXAMPLE.read_text()
CONFIG = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: NAME\ndata:\n  key: value\n"


@pytest.fixture(scope="module")
def planet(tmp_path_factory: pytest.TempPathFactory) -> Generator[TarmacProcess]:
    running = TarmacProcess(tmp_path_factory.mktemp("planet") / "data", "--runtime", "sim", command="up").start()
    try:
        fill(running)
        yield running
    finally:
        running.stop()


@pytest.fixture(scope="module")
def opened(planet: TarmacProcess) -> Generator[Page]:
    with dashboard(planet.kubeconfig) as address, browser_page() as made:
        made.context.grant_permissions(["clipboard-read", "clipboard-write"])
        made.goto(address)
        yield made


@pytest.fixture
def page(opened: Page) -> Page:
    """The page as just opened: no draft, no dialog, no preference."""
    opened.evaluate("localStorage.clear()")
    opened.evaluate("location.hash = '#/planet'")
    opened.reload()
    expect(opened.get_by_role("heading", name="Planet")).to_be_visible()
    return opened


def go(page: Page, fragment: str) -> None:
    page.evaluate(f"location.hash = {fragment!r}")


def manifest(name: str, replicas: int = 1) -> str:
    return WEB.replace("name: web\nspec", f"name: {name}\nspec").replace("minReplicas: 1", f"minReplicas: {replicas}")


def land(planet: TarmacProcess, name: str, replicas: int = 1, *flags: str) -> None:
    """Create a workload outside the page, ready."""
    kubectl(planet, "apply", "-f", "-", *flags, stdin=manifest(name, replicas))
    kubectl(planet, "wait", "--for=condition=Ready", f"workload/{name}", "--timeout=60s")


def test_by_keyboard_alone_a_mistake_is_at_its_line_then_comes_a_preview_then_the_map_fills(page: Page) -> None:
    page.keyboard.press("g")
    page.keyboard.press("c")
    line = WEB.splitlines().index("        sandbox:") + 1
    paste(page, manifest("typed").replace('"DFW", "SEA"', '"LHR"').replace("sandbox:", "sandbx:"))
    expect(page.locator(".cm-lint-marker-error")).to_have_count(1)  # by the schema, before any request
    page.keyboard.press("Control+Enter")
    expect(page.get_by_role("alert")).to_contain_text(f"Line {line}")
    expect(page.get_by_role("alert")).to_contain_text("did you mean sandbox?")
    expect(page.get_by_role("button", name="Apply")).to_be_disabled()
    page.keyboard.press("Tab")  # leaves the editor: to Preview, then, since Apply is disabled, to the line
    page.keyboard.press("Tab")
    expect(page.get_by_role("button", name=f"Line {line}")).to_be_focused()
    page.keyboard.press("Enter")
    expect(editor(page)).to_be_focused()
    page.keyboard.press("End")
    page.keyboard.press("ArrowLeft")
    page.keyboard.press("Backspace")
    page.keyboard.type("ox")  # sandbx: becomes sandbox:
    page.keyboard.press("Escape")  # closes the completion
    expect(page.locator(".cm-lint-marker-error")).to_have_count(0)
    page.keyboard.press("Control+Enter")
    preview = page.get_by_role("region", name="Preview", exact=True)
    expect(preview.locator("svg.map").get_by_text("LHR +1")).to_be_visible()
    expect(preview.get_by_role("row", name=re.compile("^LHR Comes or stays 1 0 0 0 0"))).to_be_visible()
    page.keyboard.press("Tab")
    page.keyboard.press("Tab")
    expect(page.get_by_role("button", name="Apply")).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.get_by_text("default/typed is applied")).to_be_visible()
    page.evaluate("document.activeElement.blur()")
    page.keyboard.press("g")
    page.keyboard.press("p")
    expect(page.locator("svg.map").get_by_text("LHR 1/1")).to_be_visible()


def test_a_template_is_changed_by_the_form_previewed_beside_it_and_applied(page: Page, planet: TarmacProcess) -> None:
    go(page, "#/change")
    page.get_by_role("button", name=re.compile("^Web service")).click()
    expect(editor(page)).to_contain_text("name: web")
    form = page.get_by_role("form", name="Fields")
    expect(form.get_by_label("Cities")).to_have_value("DFW, LHR")
    form.get_by_label("Instances per city").fill("2")
    form.get_by_label("Cities").fill("sea")
    form.get_by_label("CPU").fill("50m")
    form.get_by_label("CPU").press("Tab")
    for line in ("cityCodes: [SEA]", "minReplicas: 2", "cpu: 50m"):
        expect(editor(page)).to_contain_text(line)
    text = manifest("formed", 3).replace('["DFW", "SEA"]', '["LHR"]')
    paste(page, text)  # the other way: the form follows the text
    expect(form.get_by_label("Cities")).to_have_value("LHR")
    expect(form.get_by_label("Instances per city")).to_have_value("3")
    form.get_by_label("Instances per city").fill("1")
    page.get_by_role("button", name="Preview").click()
    preview = page.get_by_role("region", name="Preview", exact=True)
    expect(preview.get_by_role("row", name=re.compile("^LHR Comes or stays 1 0"))).to_be_visible()
    page.get_by_role("button", name="Apply", exact=True).click()
    expect(page.get_by_text("default/formed is applied")).to_be_visible()
    kubectl(planet, "delete", "workload", "formed")


def test_fields_and_values_are_offered_from_the_servers_schemas(page: Page) -> None:
    go(page, "#/change")
    paste(
        page, "apiVersion: compute.datumapis.com/v1alpha\nkind: Workload\nmetadata:\n  nme: x\nspec:\n  rollout:\n    "
    )
    expect(page.locator(".cm-lint-marker-error")).to_have_count(1)  # the schema has arrived
    page.keyboard.press("Control+End")
    page.keyboard.type("on")
    offers = page.locator(".cm-tooltip-autocomplete li")
    expect(offers.first).to_contain_text("onFailure")
    page.wait_for_timeout(100)  # the editor ignores Enter in the first 75 ms, in case it was meant for the text
    page.keyboard.press("Enter")
    page.keyboard.type("Re")
    expect(offers.first).to_contain_text("Restore")


def test_text_that_does_not_parse_names_its_line_and_other_kinds_are_tried_too(
    page: Page, planet: TarmacProcess
) -> None:
    go(page, "#/change")
    paste(page, WEB.replace("cpu: 100m", "cpu: [1"))
    page.get_by_role("button", name="Preview").click()
    expect(page.get_by_role("alert")).to_contain_text(re.compile(r"Line 1[34] .*expected"))
    for text, said in (
        ("kind: Pod\nmetadata:\n  name: x\n", "apiVersion: is missing"),
        (CONFIG.replace("ConfigMap", "Nothing"), "Line 2 kind: the server has no Nothing in v1"),
        (CONFIG.replace("  key", HOSTILE), "onerror"),
    ):
        paste(page, text)
        page.keyboard.press("Control+Enter")
        expect(page.get_by_role("alert")).to_contain_text(said)
    paste(page, CONFIG.replace("NAME", "made"))
    page.keyboard.press("Control+Enter")
    expect(page.get_by_text("The server would take ConfigMap made")).to_be_visible()
    page.get_by_role("button", name="Apply", exact=True).click()
    expect(page.get_by_text("default/made is applied")).to_be_visible()
    assert kubectl(planet, "get", "configmap", "made", "-o", "jsonpath={.data.key}") == "value"
    assert page.title() == "Tarmac"


FLOW = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: NAME, labels: {a: b}}\ndata: {key: value}\n"
AS_JSON = '{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "NAME"}, "data": {"key": "value"}}'


@pytest.mark.parametrize(("name", "text"), [("flow", FLOW), ("json", AS_JSON)])
def test_flow_style_and_json_are_judged_by_the_server_alone(
    page: Page, planet: TarmacProcess, name: str, text: str
) -> None:
    go(page, "#/change")
    paste(page, text.replace("NAME", f"of-{name}"))
    page.keyboard.press("Control+Enter")
    expect(page.get_by_text(f"The server would take ConfigMap of-{name}")).to_be_visible()
    page.get_by_role("button", name="Apply", exact=True).click()
    expect(page.get_by_text(f"default/of-{name} is applied")).to_be_visible()
    assert kubectl(planet, "get", "configmap", f"of-{name}", "-o", "jsonpath={.data.key}") == "value"


def test_several_objects_are_previewed_and_applied_together_and_a_mistake_names_its_line(
    page: Page, planet: TarmacProcess
) -> None:
    web = manifest("together")
    go(page, "#/change")
    paste(page, f"{CONFIG.replace('NAME', 'one')}---\n# nothing here\n---\n{web.replace('cityCodes', 'cityCode')}")
    page.keyboard.press("Control+Enter")
    line = len(CONFIG.splitlines()) + 3 + next(n for n, each in enumerate(web.splitlines(), 1) if "cityCodes" in each)
    expect(page.get_by_role("alert")).to_contain_text(f"Line {line}")
    paste(page, f"{CONFIG.replace('NAME', 'one')}---\n{web}")
    page.keyboard.press("Control+Enter")
    expect(page.get_by_text("The server would take ConfigMap one")).to_be_visible()
    expect(page.get_by_role("region", name="Preview", exact=True)).to_contain_text("2 made")
    page.get_by_role("button", name="Apply", exact=True).click()
    expect(page.get_by_text("default/together is applied")).to_be_visible()
    assert kubectl(planet, "get", "configmap", "one", "-o", "jsonpath={.data.key}") == "value"
    kubectl(planet, "get", "workload", "together")


def test_the_example_of_an_external_service_is_taken_as_it_is(page: Page) -> None:
    go(page, "#/change")
    paste(page, EXAMPLE.with_name("externalservice.yaml").read_text())
    page.keyboard.press("Control+Enter")
    expect(page.get_by_text("The server would take ExternalService my-externalservice")).to_be_visible()


def test_owned_fields_are_overwritten_only_after_their_owners_are_shown(page: Page, planet: TarmacProcess) -> None:
    land(planet, "owned")
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    go(page, "#/workloads/default/owned")
    page.get_by_role("link", name="Change it").click()
    expect(editor(page)).to_contain_text("minReplicas: 1")
    expect(editor(page)).not_to_contain_text("managedFields")
    paste(page, manifest("owned", 2))
    page.keyboard.press("Control+Enter")
    row = page.get_by_role("alert").get_by_role("row", name=re.compile("minReplicas"))
    expect(row).to_contain_text("kubectl-client-side-apply")
    expect(row).to_contain_text("28")
    assert not any("force=true" in each for each in asked)
    page.get_by_role("button", name="Take over").click()
    expect(page.get_by_role("region", name="Preview", exact=True)).to_contain_text("2 made, 2 kept")
    page.get_by_role("button", name="Apply").click()
    expect(page.get_by_text("default/owned is applied")).to_be_visible()
    page.get_by_role("link", name="See its rollout").click()
    expect(page.get_by_role("row", name=re.compile("^DFW us 2.2 2 0"))).to_be_visible()
    page.get_by_role("link", name="scaling").click()
    expect(page.get_by_role("row", name=re.compile("^DFW us 2 2"))).to_be_visible()


def test_an_apply_that_ends_instances_names_them_by_city_and_wants_the_name(page: Page, planet: TarmacProcess) -> None:
    land(planet, "shrinks", 2, "--server-side", "--field-manager=tarmac-dashboard")
    go(page, "#/change")
    paste(page, manifest("shrinks", 2).replace('"DFW", "SEA"', '"DFW"'))
    page.keyboard.press("Control+Enter")
    page.get_by_role("button", name="Apply").click()
    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text("2 instances end")
    expect(dialog.get_by_role("listitem")).to_have_text(["SEA: 2"])
    expect(dialog.get_by_role("button", name="Apply")).to_be_disabled()
    dialog.get_by_label("Type shrinks to go on").fill("shrinks")
    dialog.get_by_role("button", name="Apply").click()
    expect(page.get_by_text("default/shrinks is applied")).to_be_visible()


def test_a_revision_is_compared_and_gone_back_to_exactly(page: Page, planet: TarmacProcess) -> None:
    land(planet, "back")
    patch = [
        {
            "op": "add",
            "path": "/spec/template/spec/runtime/sandbox/containers/0/env",
            "value": [{"name": "MODE", "value": HOSTILE}],
        }
    ]
    kubectl(planet, "patch", "workload", "back", "--type=json", "-p", json.dumps(patch))
    go(page, "#/workloads/default/back/revisions")
    page.get_by_role("button", name="Compare 1 with the present").click()
    row = page.get_by_role("row", name=re.compile(r"containers\[web\]\.env\[MODE\]\.value"))
    expect(row).to_contain_text("onerror")
    assert "\u202e" not in row.inner_text()
    assert page.title() == "Tarmac"
    page.get_by_role("button", name="Undo to revision 1").click()
    dialog = page.get_by_role("dialog")
    expect(dialog.get_by_role("row", name=re.compile("^DFW"))).to_be_visible()
    dialog.get_by_role("button", name="Undo", exact=True).click()
    expect(page.get_by_role("status")).to_contain_text(["back goes back to revision 1"])
    expect(page.get_by_role("row", name=re.compile("^3 "))).to_be_visible()
    container = "{.spec.template.spec.runtime.sandbox.containers[0]}"
    assert "env" not in json.loads(kubectl(planet, "get", "workload", "back", "-o", f"jsonpath={container}"))
    page.get_by_role("link", name="timeline").click()
    for about in ("Revision 1", "Revision 2", "Revision 3", "Workload back"):
        expect(page.get_by_role("rowheader", name=about).first).to_be_visible()


def test_a_city_of_a_workload_leads_to_its_instances(page: Page, planet: TarmacProcess) -> None:
    land(planet, "spread", 2)
    go(page, "#/workloads/default/spread")
    grid = page.get_by_role("region", name="Cities")
    expect(grid.get_by_role("listitem")).to_have_count(2)
    expect(grid.get_by_role("listitem").first).to_contain_text("2/2 ready, revision 1")
    grid.get_by_role("link", name="SEA").click()
    expect(page.get_by_role("heading", name="Instances of spread in SEA")).to_be_visible()
    expect(page.get_by_role("rowheader")).to_have_count(2)
    expect(page.get_by_role("row").nth(1)).to_contain_text("spread-sea-")


def test_a_workload_is_scaled_and_restarted_from_its_head(page: Page, planet: TarmacProcess) -> None:
    land(planet, "grows")
    go(page, "#/workloads/default/grows")
    page.get_by_role("button", name="Scale…").click()
    dialog = page.get_by_role("dialog", name="Scale grows")
    dialog.get_by_label(re.compile("^us: instances in each of 2 cities")).fill("3")
    dialog.get_by_role("button", name="Scale", exact=True).click()
    expect(dialog).to_have_count(0)
    expect(page.get_by_role("status").last).to_contain_text("grows is being scaled.")
    expect(page.get_by_role("region", name="Cities")).to_contain_text("3/3 ready")
    field = "{.spec.placements[0].scaleSettings.minReplicas}"
    assert kubectl(planet, "get", "workload", "grows", "-o", f"jsonpath={field}") == "3"
    page.get_by_role("button", name="Undo", exact=True).click()
    expect(page.get_by_role("status").last).to_contain_text("grows is scaled back.")
    assert kubectl(planet, "get", "workload", "grows", "-o", f"jsonpath={field}") == "1"
    page.get_by_role("button", name="Restart…").click()
    page.get_by_role("dialog", name="Restart grows").get_by_role("button", name="Restart", exact=True).click()
    expect(page.get_by_text("revision 2").first).to_be_visible()
    expect(page.get_by_role("button", name="Undo…")).to_be_visible()


def test_a_rollout_that_fails_shows_the_exit_code_the_last_lines_and_undo(page: Page, planet: TarmacProcess) -> None:
    land(planet, "crashes")
    crash = {"metadata": {"annotations": {"sim.tarmac/crash-after": "1s"}}}
    kubectl(planet, "patch", "workload", "crashes", "--type=merge", "-p", json.dumps({"spec": {"template": crash}}))
    go(page, "#/workloads/default/crashes/rollout")
    failing = page.get_by_role("region", name=re.compile("^Failing instance crashes-dfw-")).first
    expect(failing).to_contain_text(re.compile(r"Container web exited with code 1, \d+s ago"), timeout=60_000)
    expect(failing.get_by_label(re.compile("^Last lines of"))).to_contain_text("exiting with code 1")
    page.get_by_role("link", name="Show difference").click()
    expect(page.get_by_role("row", name=re.compile("crash-after"))).to_be_visible()
    page.get_by_role("link", name="rollout", exact=True).click()
    page.get_by_role("button", name="Undo to revision 1…").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_role("button", name="Undo", exact=True).click()
    expect(page.get_by_role("status").last).to_contain_text("crashes goes back to revision 1")
    kubectl(planet, "delete", "workload", "crashes")


def test_a_rollout_is_paused_and_resumed(page: Page, planet: TarmacProcess) -> None:
    land(planet, "halts")
    go(page, "#/workloads/default/halts/rollout")
    page.get_by_role("button", name="Pause").click()
    expect(page.get_by_role("region", name="Rollout")).to_contain_text("It is paused")
    page.get_by_role("button", name="Resume").click()
    expect(page.get_by_role("region", name="Rollout")).to_contain_text("Every instance")


def test_a_city_that_the_newest_revision_has_not_reached_has_nothing_new(page: Page, planet: TarmacProcess) -> None:
    land(planet, "waits")
    change = {"template": {"metadata": {"annotations": {"note": "2"}}}, "rollout": {"minReadySeconds": 500}}
    kubectl(planet, "patch", "workload", "waits", "--type=merge", "-p", json.dumps({"spec": change}))
    go(page, "#/workloads/default/waits/rollout")
    cells = [page.get_by_role("row", name=re.compile(f"^{city}")).get_by_role("cell") for city in ("DFW", "SEA")]
    expect(cells[0]).to_have_text(["us", "● 1/1", "1", "0", ""])
    expect(cells[1]).to_have_text(["us", "● 1/1", "0", "1", "The newest revision has not reached it."])


def test_deleting_says_what_ends_by_city_and_more_than_one_wants_the_name(page: Page, planet: TarmacProcess) -> None:
    land(planet, "goes")
    go(page, "#/workloads/default/goes")
    page.get_by_role("button", name="Delete…").focus()
    page.keyboard.press("Enter")
    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text("2 instances end")
    expect(dialog.get_by_role("listitem")).to_have_text(["DFW: 1", "SEA: 1"])
    expect(dialog).not_to_contain_text("You may not list")
    expect(dialog.get_by_role("button", name="Delete", exact=True)).to_be_disabled()
    page.keyboard.press("Escape")
    expect(dialog).to_have_count(0)
    expect(page.get_by_role("button", name="Delete…")).to_be_focused()
    page.keyboard.press("Enter")
    dialog.get_by_label("Type goes to go on").focus()
    page.keyboard.type("goes")
    page.keyboard.press("Enter")
    expect(page.get_by_role("status")).to_contain_text(["goes is being deleted"])
    kubectl(planet, "wait", "--for=delete", "workload/goes", "--timeout=60s")


def copied(page: Page) -> str:
    return page.evaluate("navigator.clipboard.readText()")


def test_the_palette_finds_views_kinds_and_objects_and_enter_goes_there(page: Page, planet: TarmacProcess) -> None:
    page.keyboard.press("Control+k")
    palette = page.get_by_role("dialog", name="Go to")
    expect(palette.get_by_role("combobox")).to_be_focused()
    page.keyboard.type("nodes")
    expect(palette.get_by_role("option").first).to_contain_text("Nodes")
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name="Nodes")).to_be_visible()
    for typed, offered, heading in (
        ("web", "default/web Workload", "default.web"),
        ("web-dfw-", "default/web-dfw-", "default.web-dfw-"),  # of the list of instances, which is open by then
        ("configm", "ConfigMap core", "configmaps"),
    ):
        page.keyboard.press("Control+k")
        page.keyboard.type(typed)
        expect(palette.get_by_role("option", selected=True)).to_contain_text(offered)
        page.keyboard.press("Enter")
        expect(page.get_by_role("heading", name=re.compile(f"^{heading}"))).to_be_visible()
        page.evaluate("location.hash = '#/instances'")
        expect(page.get_by_role("rowheader").first).to_be_visible()
    page.keyboard.press("Control+k")
    page.keyboard.type("zzzz")
    expect(palette).to_contain_text("No matches")
    page.keyboard.press("Escape")
    expect(palette).to_have_count(0)


def test_the_palette_finds_objects_of_every_kind_by_a_part_of_their_name(page: Page, planet: TarmacProcess) -> None:
    kubectl(planet, "create", "configmap", "settings-of-checkout")
    land(planet, "storefront")
    palette = page.get_by_role("dialog", name="Go to")
    for typed, offered in (
        ("orefr", "default/storefront Workload"),
        ("default/storef", "default/storefront Workload"),
        ("fw-0", "dfw-0 Node"),
        ("of-checko", "default/settings-of-checkout ConfigMap"),
    ):
        page.keyboard.press("Control+k")
        page.keyboard.type(typed)
        expect(palette.get_by_role("option").filter(has_text=offered).first).to_be_visible()
        page.keyboard.press("Escape")
        expect(palette).to_have_count(0)


def test_the_palette_begins_with_recent_objects_and_acts_on_objects(page: Page, planet: TarmacProcess) -> None:
    land(planet, "acted")
    palette = page.get_by_role("dialog", name="Go to")
    go(page, "#/nodes/dfw-1")
    expect(page.get_by_role("heading", name="dfw-1")).to_be_visible()
    go(page, "#/workloads/default/acted")
    expect(page.get_by_role("heading", name="default/acted")).to_be_visible()
    page.keyboard.press("Control+k")
    expect(palette.get_by_role("option").first).to_contain_text("dfw-1 Node")  # the open one is left out
    page.keyboard.type("scale acted")
    expect(palette.get_by_role("option", selected=True)).to_contain_text("Scale default/acted")
    page.keyboard.press("Enter")
    expect(page.get_by_role("dialog", name="Scale acted")).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog")).to_have_count(0)
    page.keyboard.press("Control+k")
    page.keyboard.type("cordon dfw-1")
    expect(palette.get_by_role("option", selected=True)).to_contain_text("Cordon dfw-1")
    page.keyboard.press("Enter")
    page.get_by_role("dialog", name="Cordon dfw-1").get_by_role("button", name="Cordon", exact=True).click()
    expect(page.get_by_role("main")).to_contain_text("Cordoned")
    assert kubectl(planet, "get", "node", "dfw-1", "-o", "jsonpath={.spec.unschedulable}") == "true"
    page.get_by_role("button", name="Uncordon").click()
    expect(page.get_by_role("button", name="Cordon…")).to_be_visible()
    kubectl(planet, "delete", "workload", "acted")


def test_the_palette_says_that_it_is_still_searching(page: Page) -> None:
    page.route("**/configmaps?*", lambda route: (page.wait_for_timeout(1000), route.continue_()))
    page.keyboard.press("Control+k")
    page.keyboard.type("zzzz")
    palette = page.get_by_role("dialog", name="Go to")
    expect(palette.get_by_role("status")).to_have_text("Searching…")
    expect(palette.get_by_text("No matches")).to_have_count(0)
    expect(palette.get_by_text("No matches")).to_be_visible()
    expect(palette.get_by_role("status")).to_have_text("")
    page.unroute("**/configmaps?*")


def test_rows_tabs_and_commands_by_keys(page: Page) -> None:
    page.keyboard.press("g")
    page.keyboard.press("w")
    expect(page.get_by_role("link", name="web", exact=True)).to_be_visible()
    page.keyboard.press("/")
    page.keyboard.type("default web")
    expect(page.get_by_role("rowheader")).to_have_count(1)
    page.keyboard.press("Escape")
    page.keyboard.press("j")
    expect(page.get_by_role("link", name="web", exact=True)).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name="default/web")).to_be_visible()
    for key, tab in (("]", "instances"), ("]", "why"), ("[", "instances"), ("w", "why")):
        page.keyboard.press(key)
        expect(page.locator("main .tabs [aria-current]")).to_have_text(tab)
    page.keyboard.press("y")
    expect(page.get_by_role("status").last).to_contain_text("Copied: tarmac why workload/web -n default")
    assert copied(page) == "tarmac why workload/web -n default"


def test_every_tab_of_a_workload_offers_its_own_command(page: Page) -> None:
    commands = set[str]()
    for tab in ("overview", "instances", "why", "rollout", "timeline", "revisions", "scaling", "yaml"):
        page.evaluate(f"location.hash = '#/workloads/default/web/{tab}'")
        expect(page.locator("main .tabs [aria-current]")).to_have_text(tab)
        commands.add(page.locator("main .command code").inner_text())
    assert len(commands) == 8
    page.evaluate("location.hash = '#/workloads/default/web/nothing'")
    expect(page.get_by_role("alert")).to_contain_text("has no “nothing”")


def test_a_link_cannot_put_more_than_a_name_into_a_command(page: Page) -> None:
    page.evaluate("location.hash = '#/instances/default/' + encodeURIComponent('x; $(reboot)') + '/logs'")
    expect(page.locator("main .command code")).to_have_text("kubectl logs -f 'x; $(reboot)' -n default")


def test_the_help_names_the_keys_and_switches_letters_off(page: Page) -> None:
    page.keyboard.press("?")
    help_ = page.get_by_role("dialog", name="Keys")
    expect(help_.get_by_role("row", name=re.compile("^g w Workloads"))).to_be_visible()
    help_.get_by_label("Enable single-key shortcuts").focus()
    page.keyboard.press("Space")
    page.keyboard.press("Escape")
    expect(help_).to_have_count(0)
    page.keyboard.press("g")
    page.keyboard.press("n")
    page.keyboard.press("?")
    page.keyboard.press("Control+k")  # it follows them, so they have had their time
    expect(page.get_by_role("dialog", name="Go to")).to_be_visible()
    assert page.url.endswith("#/planet")
    page.reload()
    expect(page.get_by_role("heading", name="Planet")).to_be_visible()
    page.get_by_role("button", name="Keys").click()
    expect(help_.get_by_label("Enable single-key shortcuts")).not_to_be_checked()


@pytest.mark.parametrize(("chosen", "ground"), [("dark", "rgb(17, 17, 19)"), ("light", "rgb(255, 255, 255)")])
def test_a_theme_is_chosen_over_the_systems_and_stays(page: Page, chosen: str, ground: str) -> None:
    page.emulate_media(color_scheme="light" if chosen == "dark" else "dark")
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") != ground
    page.get_by_label("User menu").click()
    page.get_by_label("Theme").select_option(chosen)
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == ground
    page.reload()
    expect(page.get_by_role("heading", name="Planet")).to_be_visible()
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == ground
    page.get_by_label("User menu").click()
    page.get_by_label("Theme").select_option("system")
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") != ground


def test_events_of_others_are_text_in_the_time_line(page: Page, planet: TarmacProcess) -> None:
    uid = kubectl(planet, "get", "workload", "web", "-o", "jsonpath={.metadata.uid}")
    event = {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": "hostile", "namespace": "default"},
        "involvedObject": {"kind": "Workload", "name": "web", "namespace": "default", "uid": uid},
        "type": "Warning",
        "reason": "<b>Reason</b>",
        "message": HOSTILE + "x" * 1000,
        "lastTimestamp": "2026-11-17T00:00:00Z",
    }
    kubectl(planet, "create", "-f", "-", stdin=json.dumps(event))
    page.set_viewport_size({"width": 360, "height": 720})
    page.evaluate("location.hash = '#/workloads/default/web/timeline'")
    row = page.get_by_role("row", name=re.compile("onerror"))
    expect(row).to_contain_text("<b>Reason</b>")
    assert "\u202e" not in row.inner_text()
    assert page.locator("main img, main td b").count() == 0
    assert page.title() == "Tarmac"
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    page.set_viewport_size({"width": 1280, "height": 720})
