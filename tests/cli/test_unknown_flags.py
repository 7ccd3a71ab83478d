"""Flags that an agent does not have: those of a newer version cause a warning, mistyped ones an error."""

from __future__ import annotations

import pytest

from tarmac.apps.commands import parsed

AGENT = ("agent", "--kubeconfig", "k")


@pytest.mark.parametrize(
    ("words", "unknown"),
    [
        (("--future",), ("--future",)),
        (("--future=1",), ("--future=1",)),
        (("--future", "1", "--verbose"), ("--future 1",)),
        (("--future", "--verbose"), ("--future",)),
        (("--future", "1", "--other", "--third=x"), ("--future 1", "--other", "--third=x")),
        (("-v", "2"), ("-v 2",)),
        (("--container-runtime=x",), ("--container-runtime=x",)),  # no abbreviation of --container-runtime-endpoint
    ],
)
def test_an_unknown_flag_is_taken_with_the_word_after_it(words: tuple[str, ...], unknown: tuple[str, ...]) -> None:
    options = parsed((*AGENT, *words))
    assert options.unknown == unknown
    assert options.verbose is ("--verbose" in words)


def test_there_is_nothing_to_say_of_known_ones() -> None:
    assert parsed((*AGENT, "--reserved-cpus=0,4", "--cpu-manager-policy", "static")).unknown == ()


@pytest.mark.parametrize(
    ("word", "meant"),
    [
        ("--system-reservd=cpu=1", "--system-reserved"),
        ("--kube-reservedd", "--kube-reserved"),
        ("--Reserved-cpus=0", "--reserved-cpus"),
        ("--reserved_cpus=0", "--reserved-cpus"),
        ("--node-nam=x", "--node-name"),
        ("--image-sizing-provider-config=x", "--sizing-provider-config"),
        ("--image-sizing-provider-bin-dir", "--sizing-provider-bin-dir"),
    ],
)
def test_a_mistyped_flag_ends_with_2_and_names_the_right_one(
    capsys: pytest.CaptureFixture[str], word: str, meant: str
) -> None:
    with pytest.raises(SystemExit) as caught:
        parsed((*AGENT, word))
    assert caught.value.code == 2
    flag = word.partition("=")[0]
    assert capsys.readouterr().err == f"error: there is no flag {flag}; did you mean {meant}?\n"


@pytest.mark.parametrize(
    "words",
    [
        ("stray",),
        ("--future", "1", "stray"),
        ("--future=1", "stray"),
        ("--future", "--verbose", "stray"),
        ("--", "stray"),
    ],
)
def test_a_word_of_no_flag_ends_with_2(capsys: pytest.CaptureFixture[str], words: tuple[str, ...]) -> None:
    with pytest.raises(SystemExit) as caught:
        parsed((*AGENT, *words))
    assert caught.value.code == 2
    assert "unrecognized arguments" in capsys.readouterr().err


@pytest.mark.parametrize("command", [("server",), ("controllers",), ("up",)])
def test_other_commands_take_none(capsys: pytest.CaptureFixture[str], command: tuple[str, ...]) -> None:
    with pytest.raises(SystemExit) as caught:
        parsed((*command, "--future"))
    assert caught.value.code == 2
    assert "--future" in capsys.readouterr().err
