"""Users sign in to the dashboard at an OpenID Connect provider, in a real browser, and out again."""

from __future__ import annotations

import re
import time
from collections.abc import Generator
from urllib.parse import parse_qs, urlsplit

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.dashboard.axe import wrong
from tests.dashboard.browser import browser_page
from tests.dashboard.editing import editor, paste
from tests.dashboard.views import EXAMPLE, kubectl
from tests.support.openidcases import flags
from tests.support.openidprovider import Provider, provider
from tests.support.tarmac_process import TarmacProcess

pytestmark = [pytest.mark.timeout(180)]
HOSTILE = '<img src=x onerror="document.title=1">\u202egnp.exe'
Place = tuple[Provider, TarmacProcess]


@pytest.fixture(scope="module")
def trusting(tmp_path_factory: pytest.TempPathFactory) -> Generator[Place]:
    folder = tmp_path_factory.mktemp("signing-in")
    with provider(folder) as at:
        given = flags(at.issuer, str(folder / "ca.crt"))
        with TarmacProcess(folder / "data", "--controllers=-*", *given) as server:
            kubectl(
                server, "create", "clusterrolebinding", "jane", "--clusterrole=view", f"--user={at.issuer.url}#jane"
            )
            yield at, server


@pytest.fixture
def place(trusting: Place) -> Place:
    """The provider in its usual state."""
    at, server = trusting
    at.changed, at.header, at.refusal = {}, {}, {}
    at.requests.clear()
    return at, server


@pytest.fixture
def page() -> Generator[Page]:
    with browser_page() as made:
        yield made


def begin(page: Page, place: Place, view: str = "") -> None:
    page.goto(f"{place[1].url}/dashboard/{view}")
    button(page, place).click()
    expect(page.get_by_role("heading", name="Example ID")).to_be_visible()


def button(page: Page, place: Place) -> Locator:
    return page.get_by_role("button", name=f"Sign in with {urlsplit(place[0].issuer.url).netloc}")


def come_back(page: Page) -> str:
    """Follow the provider's link back; return the address it has."""
    link = page.get_by_role("link", name="Continue as jane")
    href = link.get_attribute("href") or ""
    link.click()
    page.wait_for_url(re.compile("/dashboard/"))
    return href


def kept(page: Page) -> str:
    return page.evaluate("JSON.stringify([sessionStorage, localStorage, document.cookie, location.href])")


def test_a_user_signs_in_at_the_provider_and_returns_to_the_view(page: Page, place: Place) -> None:
    at, server = place
    sent: list[str] = []
    page.on("request", lambda request: sent.append(f"{request.method} {request.url} {request.post_data}"))
    begin(page, place, "#/workloads?ns=default")
    [asked] = at.requests
    assert (asked["response_type"], asked["code_challenge_method"]) == ("code", "S256")
    assert asked["redirect_uri"] == f"{server.url}/dashboard/"
    code = parse_qs(urlsplit(come_back(page)).query)["code"][0]
    expect(page.get_by_role("heading", name="Workloads")).to_be_visible()
    assert page.url == f"{server.url}/dashboard/#/workloads?ns=default"
    page.get_by_label("User menu").click()
    expect(page.get_by_text(f"{at.issuer.url}#jane")).to_be_visible()
    found = kept(page)
    for secret in (code, "eyJ", "verifier", asked["nonce"], asked["state"]):
        assert secret not in found
    assert not [each for each in sent if "eyJ" in each], "the token is in a header of requests only"
    assert '""' in found, "no cookie"


def test_the_address_of_a_return_counts_once_and_in_its_own_tab(page: Page, place: Place) -> None:
    begin(page, place)
    back = come_back(page)
    expect(page.get_by_label("User menu")).to_be_visible()
    redeemed = place[0].redeemed
    page.goto(back)
    expect(page.get_by_role("alert")).to_contain_text("used before")
    with browser_page() as other:
        other.goto(back)
        expect(other.get_by_role("alert")).to_contain_text("not started in this tab")
        assert "code=" not in other.url
    assert place[0].redeemed == redeemed


def test_a_link_to_a_forged_return_leaves_the_user_signed_in(page: Page, place: Place) -> None:
    page.goto(f"{place[1].url}/dashboard/")
    page.get_by_label("Keep for this tab").check()
    button(page, place).click()
    come_back(page)
    expect(page.get_by_label("User menu")).to_be_visible()
    page.goto(f"{place[1].url}/dashboard/?state=forged&code=of-another-user")
    expect(page.get_by_label("User menu")).to_be_visible()
    assert "forged" not in page.url


def test_answers_of_a_hostile_provider_are_text(page: Page, place: Place) -> None:
    place[0].refusal = {"error": "access_denied", "error_description": HOSTILE}
    begin(page, place)
    come_back(page)
    expect(page.get_by_role("alert")).to_contain_text('access_denied: <img src=x onerror="document.title=1">')
    expect(page.get_by_role("alert")).not_to_contain_text("\u202e")
    assert page.title() == "Tarmac"
    place[0].refusal = {"iss": "https://evil.example", "code": "stolen"}
    button(page, place).click()
    come_back(page)
    expect(page.get_by_role("alert")).to_contain_text("The answer is of https://evil.example")


def test_an_identity_of_another_browser_or_issuer_is_refused_with_a_reason(page: Page, place: Place) -> None:
    for changed, why in (
        ({"nonce": "of another browser"}, "does not accept this identity"),
        ({"iss": "https://evil.example"}, "does not accept this identity"),
        ({"exp": int(time.time()) - 5}, "compare the clocks"),
    ):
        place[0].changed = changed
        begin(page, place)
        come_back(page)
        expect(page.get_by_role("alert")).to_contain_text(why)
        expect(page.get_by_label("User menu")).to_have_count(0)


def test_a_sign_in_that_expires_while_a_list_is_watched_keeps_view_and_draft(page: Page, place: Place) -> None:
    page.clock.install()
    begin(page, place, "#/change")
    come_back(page)
    paste(page, EXAMPLE.read_text())
    with page.expect_websocket():  # a watch is running when the token expires
        page.get_by_role("link", name="Workloads").click()
    expect(page.get_by_role("heading", name="Workloads")).to_be_visible()
    view = urlsplit(page.url).fragment
    page.clock.fast_forward("11:00")  # the token is valid for ten minutes
    expect(page.get_by_role("alert")).to_contain_text("Your sign-in has expired")
    assert urlsplit(page.url).fragment == view
    button(page, place).click()
    come_back(page)
    expect(page.get_by_role("heading", name="Workloads")).to_be_visible()
    page.evaluate("location.hash = '#/change'")
    expect(editor(page)).to_contain_text("kind: Workload")
    assert kept(page).count("kind: Workload") == 0, "a draft waits in storage only while the user is away"


def test_signing_out_forgets_the_user_and_the_provider_asks_again(page: Page, place: Place) -> None:
    at, server = place
    page.goto(f"{server.url}/dashboard/")
    page.get_by_label("Keep for this tab").check()
    button(page, place).click()
    come_back(page)
    page.get_by_label("User menu").click()
    assert "eyJ" in kept(page), "kept on the user's request"
    page.get_by_role("button", name="Sign out").click()
    expect(page.get_by_text("You are signed out of this page")).to_be_visible()
    assert "eyJ" not in kept(page)
    link = page.get_by_role("link", name="sign out there, too")
    assert link.get_attribute("href") == f"{at.issuer.url}/sign-out"
    assert "prompt" not in at.requests[-1]
    button(page, place).click()
    come_back(page)
    expect(page.get_by_label("User menu")).to_be_visible()
    assert at.requests[-1]["prompt"] == "login"


def test_a_token_remains_the_second_way(page: Page, place: Place, axe: str) -> None:
    kubectl(place[1], "create", "serviceaccount", "second")
    page.goto(f"{place[1].url}/dashboard/")
    page.get_by_text("Use a token instead").click()
    page.evaluate(axe)
    assert wrong(page) == []
    page.get_by_label("A token").fill(kubectl(place[1], "create", "token", "second").strip())
    page.get_by_role("button", name="Sign in", exact=True).click()
    page.get_by_label("User menu").click()
    expect(page.get_by_text("system:serviceaccount:default:second", exact=True)).to_be_visible()
