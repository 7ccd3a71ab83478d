"""Lines of the simulated shell: quotes, variables and operators, and unsupported words."""

from __future__ import annotations

import pytest

from tarmac.sim.sessions.words import MAX_LINE, NotSimulated, parse

VARIABLES = {"A": "one", "?": "7", "WIDE": "x" * 100}


def words(line: str) -> list[list[list[str]]]:
    """Return words by pipeline and command."""
    return [
        [[word.expanded(VARIABLES, 1000) for word in command.words] for command in pipeline.commands]
        for pipeline in parse(line)
    ]


def test_quotes_and_variables() -> None:
    assert words("""echo "a $A" '$A' ${A}b $? $NONE c\\ d""") == [[["echo", "a one", "$A", "oneb", "7", "", "c d"]]]
    assert words('echo "say \\"hi\\""') == [[["echo", 'say "hi"']]]


def test_operators_and_comments() -> None:
    found = parse("a && b || c; d | e # rest")
    assert [each.after for each in found] == ["", "&&", "||", ""]
    assert words("d | e # rest") == [[["d"], ["e"]]]
    assert words(" ;; \n ") == []


def test_output_is_dropped_and_joined() -> None:
    [pipeline] = parse("a >/dev/null 2>&1")
    assert (pipeline.commands[0].silent, pipeline.commands[0].joined) == ({1}, True)
    assert parse("a 2> /dev/null")[0].commands[0].silent == {2}


@pytest.mark.parametrize(
    ("line", "named"),
    [
        ("while true; do echo; done", "`while`"),
        ("echo $(date)", "`$(…)`"),
        ('echo "$(date)"', "`$(…)`"),
        ("a > file", "read-only"),
        ("sleep 1 &", "`&`"),
        ("echo 'open", "quote '"),
        ("cat < file", "`<`"),
        ("a | | b", "empty command"),
        ("x" * (MAX_LINE + 1), "characters"),
    ],
)
def test_other_syntax_is_named(line: str, named: str) -> None:
    with pytest.raises(NotSimulated) as refused:
        parse(line)
    assert named in str(refused.value)


def test_text_that_grows_by_its_variables_is_bounded() -> None:
    [pipeline] = parse("echo " + "$WIDE" * 100)
    with pytest.raises(NotSimulated):
        pipeline.commands[0].words[1].expanded(VARIABLES, 9_999)
    assert len(pipeline.commands[0].words[1].expanded(VARIABLES, 10_000)) == 10_000
