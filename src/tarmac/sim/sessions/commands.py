"""The commands of the simulated shell. Each gets a `Call` and returns its exit code."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from pathlib import PurePosixPath
from urllib.parse import urlsplit

from tarmac.base.clock import parse_rfc3339
from tarmac.sim.sessions.instance import RELEASE, interfaces_of
from tarmac.sim.sessions.peers import PeerUnreachable
from tarmac.sim.sessions.shell import Call, Program, ShellExit

MAX_SLEEP = 24 * 3600.0
MAX_OUTPUT = 4 * 1024 * 1024
_UNAME = {"s": "Linux", "n": "", "r": RELEASE, "v": "#1 SMP simulated by Tarmac", "m": "x86_64", "o": "GNU/Linux"}


def _now(result: Callable[[Call], int]) -> Program:
    async def program(call: Call) -> int:
        return result(call)

    return program


def _echo(call: Call) -> int:
    words = list(call.words[1:])
    if words[:1] == ["-n"]:
        call.out += " ".join(words[1:]).encode()
        return 0
    return call.say(" ".join(words))


def _env(call: Call) -> int:
    shown = {name: value for name, value in call.session.variables.items() if name != "?"}
    for name, value in shown.items():
        call.say(f"{name}={value}")
    return 0


def _printenv(call: Call) -> int:
    if len(call.words) == 1:
        return _env(call)
    value = call.session.variables.get(call.words[1])
    return 1 if value is None else call.say(value)


def _export(call: Call) -> int:
    for word in call.words[1:]:
        name, sign, value = word.partition("=")
        if sign:
            call.session.assign(name, value)
    return 0


def _uname(call: Call) -> int:
    asked = "".join(word.lstrip("-") for word in call.words[1:]) or "s"
    if "a" in asked:
        asked = "snrvmo"
    unknown = [letter for letter in asked if letter not in _UNAME]
    if unknown:
        return call.fail(f"invalid option -- '{unknown[0]}'")
    known = {**_UNAME, "n": call.session.container.hostname}
    return call.say(" ".join(text for letter, text in known.items() if letter in asked))


def _hostname(call: Call) -> int:
    if "-i" in call.words:
        return call.say(" ".join(each.partition("/")[0] for each, _ in interfaces_of(call.session.container.pod)))
    return call.say(call.session.container.hostname)


def _date(call: Call) -> int:
    now = datetime.fromtimestamp(call.session.clock.now(), UTC)
    return call.say(f"{now:%a %b %e %H:%M:%S} UTC {now:%Y}")


def _uptime(call: Call) -> int:
    started = (call.session.container.pod.get("status") or {}).get("startTime")
    seconds = int(call.session.clock.now() - parse_rfc3339(started)) if started else 0
    return call.say(
        f" up {seconds // 3600:02}:{seconds % 3600 // 60:02}:{seconds % 60:02}, load average: 0.00, 0.00, 0.00"
    )


def _ps(call: Call) -> int:
    container = call.session.container
    spec = next(each for each in container.pod["spec"]["containers"] if each["name"] == container.name)
    command = " ".join([*(spec.get("command") or [container.name]), *(spec.get("args") or [])])
    call.say("PID   USER     TIME  COMMAND")
    call.say(f"    1 root      0:00 {command}")
    return call.say("    7 root      0:00 sh")


def _ip(call: Call) -> int:
    for number, (address, network) in enumerate(interfaces_of(call.session.container.pod)):
        family = "inet6" if ":" in address else "inet"
        call.say(f"eth{number}: {family} {address} of {network}")
    return 0


def _path(call: Call, text: str) -> str:
    parts: list[str] = []
    for part in PurePosixPath(call.session.folder, text).parts[1:]:
        if part == "..":
            parts = parts[:-1]
        else:
            parts.append(part)
    return "/" + "/".join(parts)


def _cd(call: Call) -> int:
    path = _path(call, call.words[1] if len(call.words) > 1 else "/root")
    if call.session.container.listing(path) is None:
        return call.fail(f"can't cd to {call.words[-1]}: No such file or directory")
    call.session.folder = path
    return 0


async def _ls(call: Call) -> int:
    code, flags = 0, "".join(word for word in call.words[1:] if word.startswith("-"))
    container = call.session.container
    for text in [word for word in call.words[1:] if not word.startswith("-")] or ["."]:
        path = _path(call, text)
        if len(call.out) > MAX_OUTPUT:
            return call.fail(f"no more than {MAX_OUTPUT} bytes at once")
        await call.session.clock.sleep(0)  # thousands of folders with thousands of names do not hold the loop
        names = [text] if path in container.files else container.listing(path)
        if names is None:
            code = call.fail(f"{text}: No such file or directory")
            continue
        for name in names:
            whole = path if path in container.files else f"{path.rstrip('/')}/{name}"
            size = len(container.files[whole]) if whole in container.files else 4096
            kind = "-rw-r--r--" if whole in container.files else "drwxr-xr-x"
            call.say(f"{kind}    1 root     root     {size:>9} {name}" if "l" in flags else name)
    return code


async def _cat(call: Call) -> int:
    if len(call.words) == 1:
        call.out += await call.read()
        return 0
    code = 0
    for text in call.words[1:]:
        path = _path(call, text)
        if len(call.out) > MAX_OUTPUT:
            return call.fail(f"no more than {MAX_OUTPUT} bytes at once")
        if path in call.session.container.files:
            call.out += call.session.container.files[path]
        else:
            missing = call.session.container.listing(path) is None
            code = call.fail(f"{text}: {'No such file or directory' if missing else 'Is a directory'}")
    return code


async def _text(call: Call, names: list[str]) -> bytes:
    """Return the content of the named files, or the input."""
    if not names:
        return await call.read()
    reader = Call(call.session, ["cat", *names], call.read)
    await _cat(reader)
    call.err += reader.err
    return bytes(reader.out)


async def _head(call: Call) -> int:
    return await _part(call, lambda lines, number: lines[:number])


async def _tail(call: Call) -> int:
    return await _part(call, lambda lines, number: lines[-number:] if number else [])


async def _part(call: Call, of: Callable[[list[bytes], int], list[bytes]]) -> int:
    words, number = list(call.words[1:]), 10
    if words[:1] == ["-n"]:
        words[:2] = [f"-{words[1]}" if len(words) > 1 else "-"]
    if words and words[0].startswith("-"):
        digits = words.pop(0).lstrip("-n")
        if not (digits.isascii() and digits.isdigit() and len(digits) < 8):
            return call.fail("a number of lines is wanted, such as -n 5")
        number = int(digits)
    call.out += b"".join(of((await _text(call, words)).splitlines(keepends=True), number))
    return 0


async def _grep(call: Call) -> int:
    flags = "".join(word for word in call.words[1:] if word.startswith("-"))
    words = [word for word in call.words[1:] if not word.startswith("-")]
    if not words:
        return call.fail("a text to look for is missing", 2)
    # Plain text, no patterns: a pattern of a client could take exponential time.
    wanted = words[0].encode().lower() if "i" in flags else words[0].encode()
    found = [
        line
        for line in (await _text(call, words[1:])).splitlines(keepends=True)
        if (wanted in (line.lower() if "i" in flags else line)) != ("v" in flags)
    ]
    if "c" in flags:
        call.say(str(len(found)))
    elif "q" not in flags:
        call.out += b"".join(found)
    return 0 if found else 1


async def _wc(call: Call) -> int:
    text = await _text(call, [word for word in call.words[1:] if not word.startswith("-")])
    counts = {"l": text.count(b"\n"), "w": len(text.split()), "c": len(text)}
    asked = "".join(word.lstrip("-") for word in call.words[1:] if word.startswith("-")) or "lwc"
    return call.say(" ".join(str(count) for letter, count in counts.items() if letter in asked))


async def _sleep(call: Call) -> int:
    try:
        seconds = float(call.words[1].removesuffix("s"))
    except (IndexError, ValueError):
        return call.fail("a number of seconds is wanted")
    if not 0 <= seconds <= MAX_SLEEP:
        return call.fail(f"at most {MAX_SLEEP:.0f} seconds")
    await call.session.clock.sleep(seconds)
    return 0


async def _nslookup(call: Call) -> int:
    if len(call.words) < 2:
        return call.fail("a name is wanted")
    found = await call.session.peers.resolve(call.session.container, call.words[1])
    if found is None:
        return call.fail(f"can't find {call.words[1]}: NXDOMAIN")
    call.say(f"Name:\t{call.words[1]}")
    return call.say(f"Address: {found.address}")


_WITH_VALUE = re.compile(r"-(?:[A-Za-z]*[OoTtUmHXd]|-(?:timeout|max-time|header|output-document|output|request|data))")


async def _wget(call: Call) -> int:
    curl = call.words[0] == "curl"
    words, urls, flags, target = list(call.words[1:]), list[str](), "", ""
    while words:
        word = words.pop(0)
        if word.startswith("-O") and len(word) > 2:
            target = word[2:]
        elif word.startswith("-") and word != "-":
            flags += word if not word.startswith("--") else f" {word}"
            value = words.pop(0) if _WITH_VALUE.fullmatch(word) and words else ""
            target = value if word[-1] in "Oo" else target
            if word.startswith("-q") and word.endswith("O-"):
                target = "-"
        else:
            urls.append(word)
    if len(urls) != 1:
        return call.fail("one URL is wanted")
    if target not in ("", "-", "/dev/null") or (not target and not curl and "--spider" not in flags):
        name = target or "index.html"
        return call.fail(f"can't open '{name}': Read-only file system (use -O -)")
    page = await _page(call, urls[0])
    if page is None:
        return 1
    if target != "/dev/null" and "--spider" not in flags:
        call.out += page.encode()
    return 0


async def _page(call: Call, url: str) -> str | None:
    try:
        parts = urlsplit(url if "://" in url else f"http://{url}")
        host, port = parts.hostname or "", parts.port or 80
    except ValueError:
        call.fail(f"bad address '{url}'")
        return None
    if parts.scheme != "http":
        call.fail(f"{parts.scheme}: simulated instances speak http only")
        return None
    found = await call.session.peers.resolve(call.session.container, host)
    if found is None:
        call.fail(f"bad address '{host}' (simulated instances reach peers in this cluster only)")
        return None
    try:
        return await call.session.peers.fetch(call.session.container, found, port)
    except PeerUnreachable as error:
        call.fail(f"can't connect to remote host ({found.address}): {error}")
        return None


async def _exit(call: Call) -> int:
    text = call.words[1] if len(call.words) > 1 else call.session.variables.get("?", "0")
    raise ShellExit(int(text) & 0xFF if text.isascii() and text.isdigit() and len(text) < 10 else 2)


def _help(call: Call) -> int:
    call.say("A simulated instance runs no program. This shell knows:")
    call.say("  " + " ".join(NAMES))
    return call.say("with quotes, variables, pipes, ;, &&, || and output to /dev/null.")


PROGRAMS: dict[str, Callable[[Call], Awaitable[int]]] = {
    "cat": _cat,
    "cd": _now(_cd),
    "curl": _wget,
    "date": _now(_date),
    "echo": _now(_echo),
    "env": _now(_env),
    "exit": _exit,
    "export": _now(_export),
    "false": _now(lambda _: 1),
    "grep": _grep,
    "head": _head,
    "help": _now(_help),
    "hostname": _now(_hostname),
    "id": _now(lambda call: call.say("uid=0(root) gid=0(root) groups=0(root)")),
    "ip": _now(_ip),
    "ls": _ls,
    "nslookup": _nslookup,
    "printenv": _now(_printenv),
    "ps": _now(_ps),
    "pwd": _now(lambda call: call.say(call.session.folder)),
    "sleep": _sleep,
    "tail": _tail,
    "true": _now(lambda _: 0),
    "uname": _now(_uname),
    "uptime": _now(_uptime),
    "wc": _wc,
    "wget": _wget,
    "whoami": _now(lambda call: call.say("root")),
}
NAMES = (*sorted(PROGRAMS), "sh")
