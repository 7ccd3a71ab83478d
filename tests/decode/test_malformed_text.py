"""Text that is not JSON or YAML is refused with its position, in the words of Go's parser."""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tarmac.api.decode import decode_object, parse_json
from tarmac.api.decode.jsonsyntax import describe_error
from tarmac.api.decode.jsontext import Malformed
from tarmac.api.resource import Resource
from tarmac.api.status import BadRequest, TooLarge

_YAML = "application/yaml"


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "unexpected end of JSON input"),
        ("{", "unexpected end of JSON input"),
        ('{"a":[1,', "unexpected end of JSON input"),
        ('{"a":"x', "unexpected end of JSON input"),
        ('{"a":x}', "invalid character 'x' looking for beginning of value (line 1, column 6)"),
        ('{"a":1}x', "invalid character 'x' after top-level value (line 1, column 8)"),
        ("0,0", "invalid character ',' after top-level value (line 1, column 2)"),
        ("{},{}", "invalid character ',' after top-level value (line 1, column 3)"),
        ('{"a" 1}', "invalid character '1' after object key (line 1, column 6)"),
        ('{"a":1 "b":2}', "invalid character '\"' after object key:value pair (line 1, column 8)"),
        ('{"a":1,}', "invalid character '}' looking for beginning of object key string (line 1, column 8)"),
        ("{a:1}", "invalid character 'a' looking for beginning of object key string (line 1, column 2)"),
        ("[1 2]", "invalid character '2' after array element (line 1, column 4)"),
        ("[1,]", "invalid character ']' looking for beginning of value (line 1, column 4)"),
        ('{\n "a": tru}', "invalid character '}' in literal true (expecting 'e') (line 2, column 10)"),
        ('{"a":"\n"}', "invalid character '\\n' in string literal (line 1, column 7)"),
        ('{"a":"\\x"}', "invalid character 'x' in string escape code (line 1, column 8)"),
        ("-x", "invalid character 'x' in numeric literal (line 1, column 2)"),
        ("\x00", "invalid character '\\x00' looking for beginning of value (line 1, column 1)"),
    ],
)
def test_json_mistakes(text: str, problem: str) -> None:
    with pytest.raises(Malformed) as refusal:
        parse_json(text.encode())
    assert str(refusal.value) == problem


def test_the_answer_shows_the_beginning_of_the_body(config_maps: Resource) -> None:
    with pytest.raises(BadRequest) as refusal:
        decode_object(config_maps, b'{"metadata":{"name":"a"}, oops}' + b" " * 100)
    assert refusal.value.message.startswith(
        "the object provided is unrecognized (must be of type ConfigMap): couldn't get version/kind; json parse error: "
    )
    assert refusal.value.message.endswith('({"metadata":{"name":"a"}, oops ...)')


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("kind: ConfigMap\n  apiVersion: v1\n", "yaml: line 2: mapping values are not allowed in this context"),
        ("a: [", "yaml: line 1: did not find expected node content"),
        ("a: &x [*x]", "yaml: anchor 'x' value contains itself"),
        ("a: &x\n  <<: *x\n", "yaml: anchor 'x' value contains itself"),
        ("a: *x", "yaml: unknown anchor 'x' referenced"),
        ("? [a]\n: b", "yaml: line 1: unsupported map key"),
    ],
)
def test_yaml_mistakes(config_maps: Resource, text: str, problem: str) -> None:
    with pytest.raises(BadRequest) as refusal:
        decode_object(config_maps, text.encode(), _YAML)
    assert problem in refusal.value.message


def test_yaml_aliases_cannot_explode(config_maps: Resource) -> None:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 9)]
    with pytest.raises(TooLarge, match="more than 10000 values of YAML, limit is 10000; send it as JSON"):
        decode_object(config_maps, "\n".join(lines).encode(), _YAML)


@pytest.mark.parametrize("opening", ["[", '{"a":'])
def test_deep_nesting_is_refused(config_maps: Resource, opening: str) -> None:
    with pytest.raises(BadRequest):
        decode_object(config_maps, (opening * 15_000).encode())


@pytest.mark.parametrize("opening", ["[", "{a: ", "- ", "{? "])
def test_deep_nesting_in_yaml_is_refused_before_it_ends_the_process(opening: str) -> None:
    """In a process of its own: without the check it would crash."""
    script = f"from tarmac.api.decode.yamltext import parse_yaml; parse_yaml(b'a:\\n ' + {opening.encode()} * 200_000)"
    told = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=False)
    assert told.stderr.splitlines()[-1].startswith("tarmac.api.decode.jsontext.Malformed: yaml: ")


def test_aliases_do_not_nest_deeper_than_the_text_may(config_maps: Resource) -> None:
    text = f"a: &a {'[' * 300}{']' * 300}\nb: {'[' * 300}*a{']' * 300}\n"
    with pytest.raises(BadRequest, match="exceeded max depth"):
        decode_object(config_maps, text.encode(), _YAML)


def test_a_yaml_number_of_many_digits_costs_nothing(config_maps: Resource) -> None:
    with pytest.raises(BadRequest, match="cannot unmarshal"):
        decode_object(config_maps, b"metadata:\n  generation: " + b"9" * 10_000, _YAML)


@pytest.mark.parametrize("depth", [400, 700, 950, 990, 2000])
@pytest.mark.parametrize("twice", ["", ',"data":{}'])
def test_deep_values_are_taken_or_refused(config_maps: Resource, depth: int, twice: str) -> None:
    body = '{"data":{},"x":' + '{"a":' * depth + "1" + "}" * depth + twice + "}"
    with contextlib.suppress(BadRequest):
        assert decode_object(config_maps, body.encode()).obj["kind"] == "ConfigMap"


def test_a_number_of_many_digits_is_refused(config_maps: Resource) -> None:
    with pytest.raises(BadRequest):
        decode_object(config_maps, b'{"metadata":{"generation":' + b"9" * 10_000 + b"}}")


def test_text_that_is_not_utf8_is_taken_as_go_takes_it(config_maps: Resource) -> None:
    obj = decode_object(config_maps, b'{"data":{"a":"\xff","b":"\\ud800x"}}').obj
    assert obj["data"] == {"a": "\ufffd", "b": "\ufffdx"}


@given(st.text(alphabet='{}[]",:\\0123456789.-+eEtrufalsn \n\tx', max_size=30))
def test_every_refused_text_has_a_described_mistake(text: str) -> None:
    """The parser and the describer accept the same JSON."""
    try:
        json.loads(text, parse_constant=pytest.fail)
        valid = True
    except ValueError:
        valid = False
    assert (describe_error(text) == "invalid JSON") is valid
    if valid:
        assert parse_json(text.encode()).value == json.loads(text)
