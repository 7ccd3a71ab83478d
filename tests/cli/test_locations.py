"""`tarmac location create`: a Location by the code of its city."""

from __future__ import annotations

import io
from pathlib import Path

import pytest

from tarmac.cli.verbs import locations
from tarmac.cli.verbs.call import VerbCall
from tarmac.cli.verbs.console import Console
from tarmac.client.client import Client
from tarmac.client.http import HttpConfig
from tarmac.client.targets.untyped import LOCATIONS
from tests.cli.test_tokens import in_process, parsed


async def said(client: Client, *words: str) -> tuple[int, str, str]:
    out, err = io.StringIO(), io.StringIO()
    options = parsed(["location", *words])
    code = await locations.run(VerbCall(options, client, HttpConfig("https://local"), "default", Console(out, err)))
    return code, out.getvalue(), err.getvalue()


async def test_a_known_city_has_its_region_and_coordinates(tmp_path: Path) -> None:
    async with in_process(tmp_path) as client:
        code, out, err = await said(client, "create", "lhr")
        assert (code, out) == (0, "location/lhr created\n")
        assert err == "next: tarmac token create --location lhr\n"
        made = (await client.resource(LOCATIONS).get("lhr"))["spec"]
        assert made["provider"] == {"nodes": {}}
        assert made["topology"] == {"topology.datum.net/city-code": "LHR", "topology.datum.net/region": "EU"}
        assert made["coordinates"]["latitude"] == "51.47"


async def test_a_second_one_needs_a_name_of_its_own(tmp_path: Path) -> None:
    async with in_process(tmp_path) as client:
        assert (await said(client, "create", "LHR"))[0] == 0
        code, _, err = await said(client, "create", "LHR")
        assert code == 1
        assert 'there is a location "lhr" already; --name' in err
        assert (await said(client, "create", "LHR", "--name", "lhr-2"))[1] == "location/lhr-2 created\n"
        assert (await said(client, "create", "LHR", "--name", "A_B"))[0] == 2


async def test_a_city_that_is_not_known_is_created_and_told(tmp_path: Path) -> None:
    async with in_process(tmp_path) as client:
        code, _, err = await said(client, "create", "XQZ")
        assert code == 0
        assert "XQZ is not a known city" in err


@pytest.mark.parametrize("code", ["PARIS", "L1R", "LHR,SEA"])
def test_invalid_city_codes_are_refused(code: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        parsed(["location", "create", code])
    assert "CODE" in capsys.readouterr().err
