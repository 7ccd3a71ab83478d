"""Decoding of request bodies: JSON, YAML and protobuf in, a checked and pruned JSON object out."""

from tarmac.api.decode.bodies import Decoded, check_object, decode_delete_options, decode_kind, decode_object
from tarmac.api.decode.jsontext import parse_json

__all__ = ["Decoded", "check_object", "decode_delete_options", "decode_kind", "decode_object", "parse_json"]
