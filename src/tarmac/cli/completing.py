"""Shell completion: verbs, flags, kinds and names, from the commands and from the server.

Shells call `tarmac completion words -- WORD…`; the last word is the one being typed. The caller provides the names from
the server; nothing here blocks.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from typing import Final

from tarmac.cli.command import OBJECT, Command, parser_of

SHELLS: Final = ("bash", "zsh", "fish")
KINDS: Final = ("workload", "workloaddeployment", "instance", "pod")

Names = Callable[[str], Sequence[str]]
"""The names of a kind: `workload`, …, `externalservice`, `node`, `location` or `token`."""

_BY_FLAG = {"--location": "location"}
_SCRIPTS = {
    "bash": """\
_tarmac() {
    local IFS=$'\\n'
    COMPREPLY=($(tarmac completion words -- "${COMP_WORDS[@]:0:COMP_CWORD+1}" 2>/dev/null))
    [ "${#COMPREPLY[@]}" = 1 ] && case "${COMPREPLY[0]}" in */) compopt -o nospace ;; esac
}
complete -o default -F _tarmac tarmac
""",
    "zsh": """\
#compdef tarmac
_tarmac() {
    local -a found
    found=(${(f)"$(tarmac completion words -- "${(@)words[1,CURRENT]}" 2>/dev/null)"})
    if (( ! ${#found} )); then
        _files
        return
    fi
    compadd -- ${found:#*/}
    compadd -S '' -- ${(M)found:#*/}
}
if [[ "$funcstack[1]" = _tarmac ]]; then _tarmac "$@"; else compdef _tarmac tarmac; fi
""",
    "fish": """\
complete -c tarmac -f -a '(tarmac completion words -- (commandline -opc) (commandline -ct) 2>/dev/null)'
""",
}


def script(shell: str) -> str:
    """Return the script that a shell sources to complete `tarmac`."""
    return _SCRIPTS[shell]


def candidates(commands: Sequence[Command], words: Sequence[str], names: Names) -> list[str]:
    """Return the candidates for the last word. `words` begins with the program's name."""
    *before, current = words[1:] or [""]
    command, path, previous = _walk(parser_of(commands), before)
    if previous is not None and _takes_value(previous):
        return _fitting(_values(previous, names), current)
    if current.startswith("-"):
        return _fitting([flag for action in _actions(command) for flag in action.option_strings], current)
    if below := _subparsers(command):
        return _fitting([name for name in below.choices if not name.startswith("_")], current)
    kind = next((each.kind(path[1:]) for each in commands if (each.name,) == path[:1]), "")
    return _fitting(_positional(kind, current, names), current)


def _walk(
    at: argparse.ArgumentParser, words: Sequence[str]
) -> tuple[argparse.ArgumentParser, tuple[str, ...], argparse.Action | None]:
    """Return the parser that the words lead to, the verbs on the way, and the last flag if no value has followed it."""
    path: tuple[str, ...] = ()
    flag: argparse.Action | None = None
    for word in words:
        known = {option: action for action in _actions(at) for option in action.option_strings}
        below = _subparsers(at)
        if flag is not None and _takes_value(flag):
            flag = None
        elif word.startswith("-"):
            flag = known.get(word)
        elif below is not None and word in below.choices:
            at, path, flag = below.choices[word], (*path, word), None
    return at, path, flag


def _positional(kind: str, current: str, names: Names) -> list[str]:
    if kind == OBJECT:
        of, slash, _ = current.partition("/")
        return [f"{of}/{name}" for name in names(of)] if slash else [f"{each}/" for each in KINDS]
    return list(names(kind)) if kind else []


def _values(action: argparse.Action, names: Names) -> list[str]:
    if action.choices is not None:
        return [str(each) for each in action.choices]
    kind = next((kind for flag, kind in _BY_FLAG.items() if flag in action.option_strings), "")
    return list(names(kind)) if kind else []


def _takes_value(action: argparse.Action) -> bool:
    return action.nargs != 0


def _actions(command: argparse.ArgumentParser) -> list[argparse.Action]:
    return command._actions  # pyright: ignore[reportPrivateUsage] # argparse shows them nowhere else


def _subparsers(command: argparse.ArgumentParser) -> argparse._SubParsersAction[argparse.ArgumentParser] | None:
    found = [each for each in _actions(command) if isinstance(each, argparse._SubParsersAction)]  # pyright: ignore[reportPrivateUsage]
    return found[0] if found else None


def _fitting(found: Sequence[str], current: str) -> list[str]:
    return sorted({each for each in found if each.startswith(current)})
