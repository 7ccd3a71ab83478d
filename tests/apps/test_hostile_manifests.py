"""`tarmac convert` and `tarmac new` with input of another author: no traceback, no terminal command."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest
import yaml

from tarmac.apps.commands import parsed
from tarmac.apps.convert import main
from tarmac.apps.newworkload import main as new

DEPLOYMENT = "kind: Deployment\napiVersion: apps/v1\n"
SECONDS = 10.0


def deployment(name: str = "a", replicas: str = "1", image: str = "i", resources: str = "{}") -> str:
    container = f"{{name: c, image: {image}, resources: {resources}}}"
    spec = f"{{replicas: {replicas}, template: {{spec: {{containers: [{container}]}}}}}}"
    return f"{DEPLOYMENT}metadata: {{name: {name}}}\nspec: {spec}\n"


def nested(depth: int) -> str:
    return "{a: " * depth + "1" + "}" * depth


def claims(text: str) -> str:
    return f"kind: StatefulSet\napiVersion: apps/v1\nmetadata: {{name: a}}\nspec: {{volumeClaimTemplates: {text}}}\n"


LAUGHS = "a: &a [x,x,x,x,x,x,x,x,x]\n" + "".join(
    f"{new}: &{new} [{','.join([f'*{old}'] * 9)}]\n" for old, new in zip("abcdefg", "bcdefgh", strict=True)
)
HOSTILE = {
    "a title in the name": deployment('"\\e]0;evil\\a"'), "lines in the name": deployment('"a\\nkind: Secret"'),
    "a document in the name": deployment('"a\\n---\\nkind: Secret"'), "an erased screen": deployment('"\\e[2Jx"', "[]"),
    "text direction": deployment('"\\u202eevil"', "[]"), "a lone surrogate": deployment('"\\ud800"'),
    "a kind that commands": 'kind: "\\e]0;x\\a"\napiVersion: v1\nmetadata: {name: "\\e[2J"}\n',
    "a kind that is a list": "kind: []\n", "a kind that is an object": "kind: {a: b}\n",
    "metadata that is text": "kind: Deployment\nmetadata: x\n",
    "metadata that is a list": DEPLOYMENT + "metadata: []\n",
    "a spec that is text": DEPLOYMENT + "metadata: {name: a}\nspec: x\n",
    "5,000 digits": deployment(replicas="9" * 5000),
    "10,000 hexadecimal digits": deployment(replicas=f"0x{'f' * 10_000}"),
    "fewer than none": deployment(replicas="-5"), "a float": deployment(replicas="1e400"),
    "no number": deployment(replicas=".nan"), "a boolean": deployment(replicas="true"),
    "a day that is none": deployment(replicas="2026-99-99"), "a day as a name": deployment("2026-01-01"),
    "a number as an image": deployment(image="5"), "an image that commands": deployment(image='"\\e[2J"'),
    "a list as an image": deployment(image="[]"), "1e400 CPUs": deployment(resources='{requests: {cpu: "1e400"}}'),
    "2,000 digits of CPUs": deployment(resources=f'{{requests: {{cpu: "{"9" * 2000}"}}}}'),
    "CPUs that are none": deployment(resources="{requests: {cpu: abc}}"),
    "resources as a list": deployment(resources="[1]"),
    "lists in lists": "[" * 100_000, "objects in objects": f"{DEPLOYMENT}metadata: {{name: a}}\nspec: {nested(3000)}\n",
    "deep fields": f"{DEPLOYMENT}metadata: {{name: a}}\nspec: {{template: {{spec: {{affinity: {nested(600)}}}}}}}\n",
    "aliases of aliases": f"{LAUGHS}kind: Deployment\nmetadata: {{name: x, labels: {{q: *h}}}}\nspec: {{}}\n",
    "an object in itself": "kind: Deployment\nmetadata: &m {name: x, labels: *m}\nspec: {}\n",
    "a list in itself": "&x [*x]\n",
    "a program": "!!python/object/apply:os.system ['touch {touched}']\n",
    "a function": "kind: !!python/name:os.system\n",
    "merged keys": "<<: {kind: Deployment}\nmetadata: {name: a}\n", "a set": "!!set {kind}\n",
    "bytes": "kind: !!binary aGVsbG8=\nmetadata: {name: !!binary aGVsbG8=}\n", "a NUL": "kind: Deployment\0\n",
    "no UTF-8": b"\xff\xfe\xfa", "nothing": "", "null": "null\n", "items that are a number": "kind: List\nitems: 5\n",
    "items that are none": "kind: List\nitems: [1, null, []]\n",
    "lists in lists of objects": "kind: List\nitems: " + "[{kind: List, items: " * 500 + "[]" + "}]" * 500 + "\n",
    "a disk of 1e400": claims("[{metadata: {name: d}, spec: {resources: {requests: {storage: '1e400'}}}}]"),
    "a disk without a name": claims("[{}]"), "disks as an object": claims("{a: b}"),
    "a name of a megabyte": deployment("x" * 1_000_000),
    "keys that are no text": "kind: Deployment\nmetadata: {1: 2, null: y}\n",
    "a key twice": DEPLOYMENT + "metadata: {name: a}\nmetadata: {name: b}\n",
}  # fmt: skip


@pytest.mark.parametrize("name", HOSTILE)
def test_a_converted_file_commands_nothing(tmp_path: Path, name: str, capsys: pytest.CaptureFixture[str]) -> None:
    content, touched = HOSTILE[name], tmp_path / "touched"
    data = content if isinstance(content, bytes) else content.replace("{touched}", str(touched)).encode()
    (tmp_path / "x.yaml").write_bytes(data)
    began = time.thread_time()
    code = main(parsed(["convert", "-f", str(tmp_path / "x.yaml"), "--cities", "DFW"]))
    assert time.thread_time() - began < SECONDS
    assert code in (0, 2)
    assert not touched.exists()
    said = capsys.readouterr()
    for text in (said.out, said.err):
        assert text.replace("\n", "").isprintable()
    assert len(said.err) < 100_000
    assert all(each["kind"] == "Workload" for each in yaml.safe_load_all(said.out) if each)


NEW = ["new", "web", "--image", "nginx:1", "--cities", "DFW"]
WRONG_NAMES = (
    "", "A", "a b", "a\nkind: Secret", 'a"', "a'", "a}", "../a", "-a", "a" * 64, "\x1b[2J", "\u202ea", "ａ",
    "a\0", "{a}", "*a",
)  # fmt: skip
WRONG_IMAGES = (
    "", " ", 'a"\n  evil: true', "a\nb", "a b", "A B", "a:b:c", "a@b", "\x1b[2J", "\u202ea",
    "!x", "*a", "&a", "{a}", "a'", "a\0",
)  # fmt: skip
WRONG_CITIES = ("DFW]", "DFW\n", "D FW", "DF", "DFWX", "1E5", "D-W", "ＤＦＷ", '"DF', "*AA", "\x1b[2")


@pytest.mark.parametrize(
    ("position", "wrong"),
    [(1, each) for each in WRONG_NAMES] + [(3, each) for each in WRONG_IMAGES] + [(5, each) for each in WRONG_CITIES],
)
def test_a_new_workload_takes_no_text_that_ends_its_quotes(
    position: int, wrong: str, capsys: pytest.CaptureFixture[str]
) -> None:
    words = [*NEW[:position], wrong, *NEW[position + 1 :]]
    try:
        code = new(parsed(words))
    except SystemExit as end:
        code = end.code
    said = capsys.readouterr()
    if code == 0:
        assert set(yaml.safe_load(said.out)) == {"apiVersion", "kind", "metadata", "spec"}
    assert said.err.replace("\n", "").isprintable()
    assert code in (0, 2)


@pytest.mark.parametrize("city", ["YES", "OFF", "NAN", "INF", "NIL", "NUL"])
def test_a_city_stays_text_whatever_yaml_makes_of_it(city: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert new(parsed([*NEW[:-1], city])) == 0
    assert yaml.safe_load(capsys.readouterr().out)["spec"]["placements"][0]["cityCodes"] == [city]


@pytest.mark.parametrize("make", ["file", "link", "dangling link", "folder", "pipe"])
def test_a_new_manifest_replaces_nothing(tmp_path: Path, make: str) -> None:
    file, target = tmp_path / "web.yaml", tmp_path / "target"
    if make in ("file", "link"):
        target.write_text("precious")
    match make:
        case "file":
            file.write_text("precious")
        case "link" | "dangling link":
            file.symlink_to(target)
        case "folder":
            file.mkdir()
        case _:
            os.mkfifo(file)
    assert new(parsed([*NEW, "-o", str(file)])) == 1
    assert not target.exists() or target.read_text() == "precious"
