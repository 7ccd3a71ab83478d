"""Pages show real output: a newcomer who types their commands, and those of `make run`, gets the output in the page."""

from __future__ import annotations

import difflib
from collections.abc import Generator
from pathlib import Path

import pytest

from tests.docs.newcomer import Terminal, first_steps
from tests.docs.pages import blocks
from tests.docs.tour import HOW_TO, PLAYED, README, TUTORIAL, WAY_IN, comparable, replayed

pytestmark = [pytest.mark.timeout(240)]


@pytest.fixture(scope="module")
def real(tmp_path_factory: pytest.TempPathFactory) -> Generator[Terminal]:
    """The planet at the start of the README."""
    with first_steps(README, tmp_path_factory.mktemp("real")) as terminal:
        yield terminal


@pytest.fixture(scope="module")
def simulated(tmp_path_factory: pytest.TempPathFactory) -> Generator[Terminal]:
    """The planet at the start of the tutorial."""
    with first_steps(TUTORIAL, tmp_path_factory.mktemp("simulated")) as terminal:
        yield terminal


def check(page: Path, terminal: Terminal) -> None:
    expected = comparable(page.read_text()).splitlines()
    seen = comparable(replayed(page, terminal)).splitlines()
    difference = "\n".join(difflib.unified_diff(expected, seen, page.name, "seen", lineterm=""))
    assert not difference, f"{page.name} shows something else than what happens:\n{difference}"


@pytest.mark.root
@pytest.mark.parametrize("page", PLAYED[README], ids=lambda page: page.stem)
def test_on_real_cities(page: Path, real: Terminal) -> None:
    check(page, real)


@pytest.mark.root
def test_on_real_cities_with_an_outside(tmp_path: Path) -> None:
    with first_steps(WAY_IN, tmp_path) as terminal:
        check(WAY_IN, terminal)


@pytest.mark.parametrize("page", PLAYED[TUTORIAL], ids=lambda page: page.stem)
def test_on_simulated_cities(page: Path, simulated: Terminal) -> None:
    check(page, simulated)


def test_access_is_given_and_taken_as_the_page_says(simulated: Terminal) -> None:
    giving, _, taking = (HOW_TO / "give-access.md").read_text().partition("## Jane leaves")
    play(simulated, giving)
    assert "jane" in simulated.run("kubectl auth whoami --kubeconfig=jane.kubeconfig")
    assert simulated.run("kubectl auth can-i use runtimeclass/runc --kubeconfig=jane.kubeconfig").endswith("yes\n")
    play(simulated, taking)
    refused = simulated.run("kubectl auth whoami --kubeconfig=jane.kubeconfig")
    assert "[exit" in refused, refused


def play(terminal: Terminal, text: str) -> None:
    for block in blocks(text):
        seen = terminal.run(f"set -e\n{block}")
        assert "[exit" not in seen, f"{block}\n{seen}"


def test_setup_offers_a_kubectl_where_there_is_none(tmp_path: Path) -> None:
    terminal = Terminal(tmp_path)
    assert "[exit 127]" in terminal.run("kubectl version --client")
    _, _, offer = terminal.run("make setup").partition("there is no kubectl on the PATH; this builds one: ")
    assert "[exit" not in terminal.run(offer)
    assert terminal.run("kubectl version --client").startswith("Client Version: v1.")
