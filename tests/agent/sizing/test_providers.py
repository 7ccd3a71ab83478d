"""Providers run in order; the first that names an amount wins, and any failure fails the round."""

from __future__ import annotations

from pathlib import Path

import pytest

from tarmac.agent.config.configreader import BadConfig
from tarmac.agent.sizing.providers import ProviderFailed, SizingProviders
from tarmac.base.clock import SystemClock
from tarmac.decide.allocatable.reservations import Reserved
from tests.agent.sizing.programs import Programs, answer


@pytest.fixture
def programs(tmp_path: Path) -> Programs:
    """Return an empty configuration."""
    return Programs(tmp_path)


def checked(programs: Programs) -> SizingProviders:
    return SizingProviders(programs.config, programs.bin_dir, SystemClock())


async def failure(programs: Programs) -> str:
    with pytest.raises(ProviderFailed) as caught:
        await checked(programs).ask()
    return str(caught.value)


async def test_the_earliest_that_names_an_amount_wins_map_by_map(programs: Programs) -> None:
    programs.saying("b", kubeReserve={"cpu": "100m"}, systemReserve={"memory": "1Gi"})
    programs.saying("a", kubeReserve={"cpu": "0", "memory": "2Gi"}, systemReserve={"cpu": "1"})
    programs.saying("empty")
    found = await checked(programs).ask()
    assert found.kube == {"cpu": Reserved(100, "provider b"), "memory": Reserved(2 << 30, "provider a")}
    assert found.system == {"memory": Reserved(1 << 30, "provider b"), "cpu": Reserved(1000, "provider a")}


async def test_zero_of_an_earlier_one_wins_too(programs: Programs) -> None:
    programs.saying("a", kubeReserve={"cpu": "0"})
    programs.saying("b", kubeReserve={"cpu": "1"})
    assert (await checked(programs).ask()).kube == {"cpu": Reserved(0, "provider a")}


async def test_a_later_one_is_asked_and_judged_though_nothing_of_it_is_needed(programs: Programs) -> None:
    programs.saying("a", kubeReserve={"cpu": "1"})
    programs.saying("b", kubeReserve={"cpu": "-1"})
    assert await failure(programs) == (
        'sizing provider "b": kubeReserve: resource quantity for "cpu" cannot be negative: -1'
    )


async def test_nothing_is_kept_between_two_rounds(programs: Programs, tmp_path: Path) -> None:
    (tmp_path / "said").write_text(answer(kubeReserve={"cpu": "1"}))
    programs.shell("a", f"cat {tmp_path}/said")
    providers = checked(programs)
    assert (await providers.ask()).kube["cpu"].amount == 1000
    (tmp_path / "said").write_text(answer())
    assert (await providers.ask()).kube == {}


async def test_arguments_and_variables_are_handed_on_as_they_are(
    programs: Programs, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("INHERITED", "host")
    monkeypatch.setenv("BOTH", "host")
    env = [{"name": "BOTH", "value": "first"}, {"name": "BOTH", "value": "$HOME; `id`"}]
    programs.shell("a", 'echo "$#|$1|$2|$INHERITED|$BOTH" >&2', "exit 1", args=["$(id)", "a  b"], env=env)
    assert await failure(programs) == 'sizing provider "a": exited with code 1: 2|$(id)|a  b|host|$HOME; `id`'


async def test_the_request_is_read_from_stdin(programs: Programs) -> None:
    programs.shell("a", "cat >&2; exit 1")
    assert (await failure(programs)).endswith(
        'code 1: {"kind":"SizingProviderRequest","apiVersion":"sizingprovider.kubelet.k8s.io/v1alpha1"}'
    )


async def test_an_error_shows_stderr_on_one_line_and_never_stdout(programs: Programs) -> None:
    programs.shell("a", "echo s3cret; printf 'one\\n\\n  two\\033[2J\\n' >&2; exit 7")
    assert await failure(programs) == 'sizing provider "a": exited with code 7: one; two\ufffd[2J'


async def test_of_much_on_stderr_the_last_4_kib_are_told(programs: Programs) -> None:
    programs.python("a", "import sys; sys.stderr.write('x' * 100000 + 'end'); sys.exit(2)")
    told = await failure(programs)
    assert told.endswith("xend")
    assert len(told) == len('sizing provider "a": exited with code 2: ') + 4096


async def test_text_on_stderr_is_no_failure(programs: Programs) -> None:
    programs.shell("a", f"echo warning >&2; echo '{answer(kubeReserve={'pid': '5'})}'")
    assert (await checked(programs).ask()).kube["pid"].amount == 5


async def test_figures_tell_seconds_and_failures_of_each(programs: Programs, tmp_path: Path) -> None:
    programs.saying("a")
    programs.shell("b", f"test -e {tmp_path}/good && echo '{answer()}'")
    providers = checked(programs)
    with pytest.raises(ProviderFailed, match="exited with code 1"):
        await providers.ask()
    (tmp_path / "good").touch()
    await providers.ask()
    assert providers.counters.errors == {"a": 0, "b": 1}
    assert providers.counters.seconds.keys() == {"a", "b"}


async def test_every_program_is_looked_at_before_the_first_is_run(programs: Programs, tmp_path: Path) -> None:
    programs.shell("a", f"touch {tmp_path}/ran")
    programs.name("absent")
    programs.shell("open").chmod(0o777)
    with pytest.raises(BadConfig) as caught:
        await checked(programs).ask()
    absent, writable = str(caught.value).split("; sizing provider ")
    assert absent == f'sizing provider "absent": {programs.bin_dir}/absent: No such file or directory'
    assert writable.startswith(f'"open": {programs.bin_dir}/open can be written by others (mode 0777)')
    assert not (tmp_path / "ran").exists()


async def test_a_folder_that_is_none_is_refused(programs: Programs, tmp_path: Path) -> None:
    programs.saying("a")
    for folder, told in (
        (Path("bin"), "'bin' is not an absolute path"),
        (tmp_path / "absent", "No such file or directory"),
        (programs.config, "is not a directory"),
    ):
        with pytest.raises(BadConfig, match=f"^--sizing-provider-bin-dir: .*{told}"):
            await SizingProviders(programs.config, folder, SystemClock()).ask()
