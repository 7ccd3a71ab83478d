"""`tarmac token`: created for an existing Location, shown once, listed without secrets, revoked by id."""

from __future__ import annotations

import io
import json
from argparse import Namespace
from pathlib import Path

import pytest

from tarmac.api.networking.cities import location_of
from tarmac.api.nodetokens import parse_token
from tarmac.apps.commands import parsed
from tarmac.cli.verbs.console import Console
from tarmac.cli.verbs.tokens import token
from tarmac.client.client import Client
from tarmac.client.targets.untyped import ENDPOINT_SLICES, LOCATIONS
from tests.client.backends import in_process


async def said(client: Client, *words: str) -> tuple[int, str, str]:
    out, err = io.StringIO(), io.StringIO()
    options: Namespace = parsed(["token", *words])
    code = await token(client, options, Console(out, err))
    return code, out.getvalue(), err.getvalue()


async def test_tokens_are_made_listed_and_ended(tmp_path: Path) -> None:
    async with in_process(tmp_path) as client:
        code, _, err = await said(client, "create", "--location", "dfw")
        assert (code, err) == (
            1,
            'error: there is no location "dfw": there is none yet; create it with `tarmac location create CODE`\n',
        )
        await client.resource(LOCATIONS).create(location_of("dfw", "DFW", "nodes"))
        code, out, _ = await said(client, "create", "--location", "dfw", "--uses", "3")
        made = parse_token(out)
        assert (code, out) == (0, f"{made.text}\n")
        shown = json.loads((await said(client, "create", "--location", "dfw", "--uses", "0", "-o", "json"))[1])
        assert (shown["uses"], shown["location"]) == (0, "dfw")
        code, out, _ = await said(client, "list")
        rows = {line.split()[0]: line.split()[1:3] for line in out.splitlines()}
        assert rows[made.id] == ["dfw", "0/3"]
        assert rows[shown["id"]] == ["dfw", "any"]
        assert made.secret not in out
        listed = json.loads((await said(client, "list", "-o", "json"))[1])["tokens"]
        assert {each["id"] for each in listed} == {made.id, shown["id"]}
        assert made.secret not in json.dumps(listed)
        assert (await said(client, "delete", made.id))[0] == 0
        assert (await said(client, "revoke", shown["token"]))[0] == 0
        code, _, err = await said(client, "delete", "nobody")
        assert (code, err) == (1, 'error: there is no token "nobody"\n')
        assert (await said(client, "list"))[1] == ""


async def test_a_server_token_has_one_use_and_a_near_end(tmp_path: Path) -> None:
    async with in_process(tmp_path) as client:
        code, out, _ = await said(client, "create", "--server")
        made = parse_token(out)
        assert code == 0
        listed = (await said(client, "list"))[1].splitlines()
        assert listed[1].split()[:3] == [made.id, "(server)", "0/1"]
        for words in (["--uses", "2"], ["--uses", "0"], ["--ttl", "61m"]):
            code, out, err = await said(client, "create", "--server", *words)
            assert (code, out) == (1, "")
            assert "a server token has one use and lasts an hour at most" in err


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["create"], "--location"),
        (["create", "--location", "a", "--server"], "not allowed with"),
        (["create", "--location", "a", "--uses", "1001"], "is not a number from 0 (any number of machines) to 1000"),
        (["create", "--location", "a", "--uses", "-1"], "--uses"),
        (["create", "--location", "a", "--ttl", "0s"], "is not a length of time"),
        (["create", "--location", "a", "--ttl", "-1h"], "--ttl"),
        (["delete"], "ID"),
    ],
)
def test_wrong_words_are_refused(words: list[str], says: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        parsed(["token", *words])
    assert ended.value.code == 2
    assert says in capsys.readouterr().err


class Terminal(io.StringIO):
    """The output of a terminal."""

    def isatty(self) -> bool:
        return True


async def on_a_terminal(client: Client, *words: str) -> tuple[str, str]:
    out, err = Terminal(), io.StringIO()
    assert await token(client, parsed(["token", *words]), Console(out, err)) == 0
    return out.getvalue().strip(), err.getvalue().strip()


async def test_on_a_terminal_the_whole_line_for_the_new_host_follows(tmp_path: Path) -> None:
    async with in_process(tmp_path) as client:
        await client.resource(LOCATIONS).create(location_of("dfw", "DFW", "nodes"))
        assert "listens on loopback only" in (await on_a_terminal(client, "create", "--location", "dfw"))[1]
        part = {
            "apiVersion": "discovery.k8s.io/v1",
            "kind": "EndpointSlice",
            "metadata": {
                "name": "kubernetes-other",
                "namespace": "default",
                "labels": {"kubernetes.io/service-name": "kubernetes"},
            },
            "addressType": "IPv4",
            "endpoints": [{"addresses": ["192.0.2.7"]}],
            "ports": [{"name": "https", "port": 6443, "protocol": "TCP"}],
        }
        await client.resource(ENDPOINT_SLICES).create(part)
        made, said = await on_a_terminal(client, "create", "--location", "dfw")
        assert said == f"on the new host, as root: echo {made} | tarmac join 192.0.2.7:6443 --token-file -"
        made, said = await on_a_terminal(client, "create", "--server")
        assert said == f"on the new host, as root: echo {made} | tarmac join --server 192.0.2.7:6443 --token-file -"
