"""The parser of Go types."""

from __future__ import annotations

from pathlib import Path

from tools.kubernetes_tables.enumerations import add_enumerations
from tools.kubernetes_tables.gotypes import GoTypes, openapi_prefix

_SOURCE = """package v1

import (
\t"k8s.io/apimachinery/pkg/api/resource"
\tmetav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Mode is a way to be.
// +enum
type Mode string

const (
	// ModeFast is for those
	// in a hurry.
	ModeFast Mode = "Fast"
	ModeSlow = Mode("Slow")
)

type Amounts map[Mode]resource.Quantity

// Thing is a thing.
// +genclient
type Thing struct {
\tmetav1.TypeMeta `json:",inline"`
\t// Standard metadata.
\t// +optional
\tmetav1.ObjectMeta `json:"metadata,omitempty" protobuf:"bytes,1,opt,name=metadata"`

\tPart `json:",inline" protobuf:"bytes,2,opt,name=part"`

\tMode   *Mode    `json:"mode,omitempty" protobuf:"bytes,3,opt,name=mode"`
\tLimits Amounts  `json:"limits" protobuf:"bytes,4,rep,name=limits"`
\tRaw    []byte   `json:"raw,omitempty" protobuf:"bytes,5,opt,name=raw"`
\tHidden string   `json:"-"`
}

type Part struct {
\tSize int32 `json:"size,omitempty" protobuf:"varint,1,opt,name=size"`
}
"""


def _read(tmp_path: Path) -> GoTypes:
    (tmp_path / "types.go").write_text(_SOURCE)
    go = GoTypes()
    go.read("k8s.io/api/things/v1", tmp_path)
    return go


def test_fields_with_their_tags(tmp_path: Path) -> None:
    go = _read(tmp_path)
    fields = {field.json: field for field in go.json_fields("io.k8s.api.things.v1.Thing")}
    assert list(fields) == ["metadata", "size", "mode", "limits", "raw"]
    assert (fields["mode"].pointer, fields["mode"].omit_empty, fields["mode"].number) == (True, True, "3")
    assert (fields["limits"].pointer, fields["limits"].omit_empty) == (False, False)


def test_go_types_as_error_messages_name_them(tmp_path: Path) -> None:
    fields = {field.json: field.go_type for field in _read(tmp_path).json_fields("io.k8s.api.things.v1.Thing")}
    assert fields == {
        "metadata": "v1.ObjectMeta",
        "size": "int32",
        "mode": "v1.Mode",
        "limits": "v1.Amounts",
        "raw": "[]uint8",
    }


def test_embedded_structs_are_remembered(tmp_path: Path) -> None:
    assert dict(_read(tmp_path).embedded("io.k8s.api.things.v1.Thing")) == {"size": "Part"}


def test_comments_without_markers(tmp_path: Path) -> None:
    go = _read(tmp_path)
    assert go.doc("io.k8s.api.things.v1.Thing") == "Thing is a thing."
    assert next(iter(go.json_fields("io.k8s.api.things.v1.Thing"))).doc == "Standard metadata."


def test_named_types(tmp_path: Path) -> None:
    assert _read(tmp_path).underlying("io.k8s.api.things.v1.Mode") == "string"


def test_names_as_openapi_writes_them() -> None:
    assert openapi_prefix("k8s.io/apimachinery/pkg/apis/meta/v1") == "io.k8s.apimachinery.pkg.apis.meta.v1"


def test_enumerations_with_the_meaning_of_their_values(tmp_path: Path) -> None:
    schema = {"properties": {"mode": {"type": "string", "description": "How it is."}, "raw": {"type": "string"}}}
    add_enumerations({"io.k8s.api.things.v1.Thing": schema}, _read(tmp_path))
    described = 'How it is.\n\nPossible enum values:\n - `"Fast"` is for those in a hurry.\n - `"Slow"`'
    assert schema["properties"]["mode"] == {"type": "string", "description": described, "enum": ["Fast", "Slow"]}
    assert schema["properties"]["raw"] == {"type": "string"}
