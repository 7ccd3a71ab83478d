"""Logs in the page: the selection is in the link and in the command, and a broken connection loses no line."""

from __future__ import annotations

import json
from collections.abc import Generator

import pytest
from playwright.sync_api import Page, Route, expect

from tests.dashboard.browser import browser_page, dashboard
from tests.dashboard.logfakes import FakeLog
from tests.dashboard.views import instance_of
from tests.support.tarmac_process import TarmacProcess

pytestmark = [pytest.mark.timeout(180)]
HOSTILE = '<img src=x onerror="document.title=1">\u202e\u001b]0;stolen\u0007'


@pytest.fixture(scope="module")
def instance(full_planet: TarmacProcess) -> str:
    return instance_of(full_planet, "web")


@pytest.fixture(scope="module")
def opened(full_planet: TarmacProcess) -> Generator[Page]:
    with dashboard(full_planet.kubeconfig) as address, browser_page() as made:
        made.goto(address)
        yield made


@pytest.fixture
def page(opened: Page) -> Generator[Page]:
    yield opened
    opened.unroute_all(behavior="wait")


def logs(page: Page, instance: str, query: str = "") -> None:
    """Open the tab from another view, so that nothing of an earlier test is left."""
    page.evaluate("location.hash = '#/nodes'")
    expect(page.get_by_role("heading", name="Nodes")).to_be_visible()
    page.evaluate(f"location.hash = '#/instances/default/{instance}/logs{query}'")


def with_sidecar(route: Route) -> None:
    """Return the Pod with one more container."""
    answer = route.fetch()
    pod = answer.json()
    pod["spec"]["containers"].append({"name": "sidecar", "image": "sidecar:1"})
    route.fulfill(response=answer, body=json.dumps(pod))


def test_a_log_goes_on_where_it_broke_with_no_line_missing_and_none_twice(page: Page, instance: str) -> None:
    log = FakeLog()
    log.serve(page)
    logs(page, instance)
    text = page.get_by_role("log", name="Log")
    for _ in range(100):
        if log.sockets:
            break
        page.wait_for_timeout(50)  # an idle connection has no visible effect
    log.write(f"2026-11-17T06:00:00.5Z first {HOSTILE}\n2026-11-17T06:00:01Z second\n2026-11-17T06:00:01Z third\n2026-")
    expect(text).to_contain_text("third")
    log.sockets[-1].close(code=4000)
    expect(page.get_by_text("The connection was lost; connecting again.")).to_be_visible()
    expect(page.get_by_text("The connection was lost; connecting again.")).to_have_count(0)
    log.write("2026-11-17T06:00:01Z second\n2026-11-17T06:00:01Z third\n2026-11-17T06:00:01Z fourth\n")
    expect(text).to_contain_text("fourth")
    shown = text.inner_text().splitlines()
    assert [line.split()[0] for line in shown] == ["first", "second", "third", "fourth"]
    assert "\u202e" not in shown[0]
    assert text.locator("img").count() == 0
    assert page.title() == "Tarmac"
    first = {"timestamps": "true", "tailLines": "1000", "follow": "true"}
    again = {"timestamps": "true", "sinceTime": "2026-11-17T06:00:01Z", "follow": "true"}
    assert log.followed == [first, again]
    log.sockets[-1].close(code=1000)
    expect(page.get_by_text("The log has ended.")).to_be_visible()
    page.get_by_role("button", name="Read again").click()
    expect(page.get_by_text("The log has ended.")).to_have_count(0)
    assert len(log.followed) == 3


def test_log_options_are_in_the_link_and_the_command(page: Page, instance: str) -> None:
    log = FakeLog(once="2026-11-17T05:59:59Z panic: out of paper\n2026-11-17T05:59:59Z exit\n")
    log.serve(page)
    page.route(f"**/pods/{instance}?*", with_sidecar)
    logs(page, instance)
    choices = page.get_by_role("group", name="What is read")
    command = page.locator("main .command code")
    expect(choices.get_by_label("Container")).to_have_value("web")
    choices.get_by_label("Container").select_option("sidecar")
    expect(command).to_have_text(f"kubectl logs -f {instance} -n default -c sidecar")
    choices.get_by_label("Since").select_option("5 minutes")
    expect(command).to_contain_text("--since=5m")
    choices.get_by_label("Before its last restart").check()
    text = page.get_by_role("log", name="Log")
    expect(text).to_contain_text("panic: out of paper")
    expect(choices.get_by_label("Follow")).to_be_disabled()
    asked = {"container": "sidecar", "timestamps": "true", "sinceSeconds": "300", "tailLines": "10000"}
    assert log.followed[-1] == asked | {"follow": "true"}
    assert log.read == [asked | {"previous": "true"}]
    choices.get_by_label("Times").check()
    expect(text).to_contain_text("2026-11-17T05:59:59Z panic")
    choices.get_by_label("Wrap").uncheck()
    expect(text).to_have_css("white-space", "pre")
    page.get_by_label("Find").fill("PANIC")
    expect(page.get_by_text("1 of 2 lines")).to_be_visible()
    expect(text).not_to_contain_text("exit")
    assert len(log.read) == 1  # a change of display causes no request
    expect(command).to_have_text(f"kubectl logs {instance} -n default -c sidecar --since=5m --previous --timestamps")
    link = page.url
    for part in ("c=sidecar", "since=5m", "previous=true", "times=true", "wrap=false", "find=PANIC"):
        assert part in link
    page.reload()
    expect(text).to_have_text("2026-11-17T05:59:59Z panic: out of paper")
    expect(choices.get_by_label("Wrap")).not_to_be_checked()
    assert page.url == link


def test_a_log_that_is_not_followed_is_read_once_and_again_when_told(page: Page, instance: str) -> None:
    log = FakeLog(once="one\n")
    log.serve(page)
    logs(page, instance, "?follow=false")
    text = page.get_by_role("log", name="Log")
    expect(text).to_have_text("one")
    log.once = "one\ntwo\n"
    page.get_by_role("button", name="Read again").click()
    expect(text).to_contain_text("two")
    assert log.followed == []
    expect(page.locator("main .command code")).to_have_text(f"kubectl logs {instance} -n default")


def test_new_lines_do_not_scroll_a_reader_further_up(page: Page, instance: str) -> None:
    log = FakeLog(greeting="".join(f"line {each}\n" for each in range(400)).encode())
    log.serve(page)
    logs(page, instance)
    text = page.get_by_role("log", name="Log")
    expect(text).to_contain_text("line 399")
    assert text.evaluate("(box) => box.scrollHeight - box.scrollTop - box.clientHeight") < 2
    text.focus()
    page.keyboard.press("Home")
    for _ in range(100):
        if text.evaluate("(box) => box.scrollTop") == 0:
            break
        page.wait_for_timeout(50)  # smooth scrolling has no event at its end
    log.write("more\n")
    expect(text).to_contain_text("more")
    assert text.evaluate("(box) => box.scrollTop") == 0


def test_a_log_that_cannot_be_read_is_replaced_by_the_reason_and_a_way_on(page: Page, instance: str) -> None:
    status = {"kind": "Status", "code": 503, "message": "the node of it is away"}
    page.route("**/log?*", lambda route: route.fulfill(status=503, body=json.dumps(status)))
    logs(page, instance, "?follow=false")
    said = page.get_by_role("alert")
    expect(said).to_contain_text("The log could not be read.")
    expect(said).to_contain_text("the node of it is away")
    expect(page.get_by_role("log")).to_have_count(0)
    page.unroute("**/log?*")
    said.get_by_role("button", name="Read again").click()
    expect(page.get_by_role("log", name="Log")).to_contain_text("running")
    expect(said).to_have_count(0)
