"""Reflection tests of the public API: what is promised in comments, enums and generated code holds."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
from google.protobuf import descriptor_pb2, json_format, message_factory, text_format
from google.protobuf.descriptor import FieldDescriptor
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from graphsvc.domain.errors import ErrorReason
from graphsvc.server import status
from graphsvc.server.interceptors import ROLES
from graphsvc.server.server import SERVICES
from graphsvc.v1 import (
    context_service_pb2,
    core_pb2,
    error_reason_pb2,
    predictor_service_pb2,
    registry_service_pb2,
    retrieval_service_pb2,
)

ROOT = Path(__file__).parents[2]
PROTO = ROOT / "proto"
FILES = sorted((PROTO / "graphsvc" / "v1").glob("*.proto"))
MODULES = (
    core_pb2,
    context_service_pb2,
    retrieval_service_pb2,
    registry_service_pb2,
    predictor_service_pb2,
    error_reason_pb2,
)
MESSAGES = [descriptor for module in MODULES for descriptor in module.DESCRIPTOR.message_types_by_name.values()]
METHODS = [method for service in SERVICES for method in service.methods]
CODES = {code.name for code in status.CODES.values()}


@pytest.fixture(scope="session")
def comments(tmp_path_factory) -> dict[str, str]:
    """Leading comments by full name: services, methods, messages, fields, enums and their values."""
    out = tmp_path_factory.mktemp("descriptors") / "set.pb"
    protoc(f"--descriptor_set_out={out}", "--include_source_info")
    found: dict[str, str] = {}
    for file in descriptor_pb2.FileDescriptorSet.FromString(out.read_bytes()).file:
        for location in file.source_code_info.location:
            if name := name_at(file, list(location.path)):
                found[name] = location.leading_comments
    return found


def protoc(*arguments: str) -> None:
    command = [sys.executable, "-m", "grpc_tools.protoc", f"-I{PROTO}", *arguments, *map(str, FILES)]
    subprocess.run(command, check=True, capture_output=True)


def name_at(file, path: list[int]) -> str | None:
    """Full name of the element at a source path; None for what is no named element."""
    element, names = file, [file.package]
    while path:
        number, *path = path
        field = type(element).DESCRIPTOR.fields_by_number.get(number)
        if field is None or field.message_type is None or not path:
            return None
        element, path = getattr(element, field.name)[path[0]], path[1:]
        if not getattr(element, "name", ""):
            return None
        names.append(element.name)
    return ".".join(names) if len(names) > 1 else None


def test_reasons_are_the_same_in_both_worlds():
    prefix = "ERROR_REASON_"
    values = error_reason_pb2.ErrorReason.DESCRIPTOR.values
    assert all(value.name.startswith(prefix) for value in values)
    names = {value.name.removeprefix(prefix) for value in values} - {"UNSPECIFIED"}
    assert names == {reason.name for reason in ErrorReason} == {reason.value for reason in ErrorReason}


def test_every_element_is_described(comments):
    bare = [name for name, comment in comments.items() if not comment.strip()]
    assert not bare
    assert {method.full_name for method in METHODS} <= set(comments)


def test_every_service_is_in_the_table_of_roles():
    assert {f"/{method.containing_service.full_name}/{method.name}" for method in METHODS} == set(ROLES)
    declared = {service.full_name for module in MODULES for service in module.DESCRIPTOR.services_by_name.values()}
    assert declared == {service.full_name for service in SERVICES}


@pytest.mark.parametrize("method", METHODS, ids=lambda method: method.name)
def test_every_rpc_comment_has_its_parts(method, comments):
    comment = comments[method.full_name]
    effect = comment.split(".")[0].strip()
    assert re.match(r"[A-Z][a-z]+s\b", effect), "begins with what it does"
    assert re.search(r"[Ii]dempotent|Reads only", comment), "says what a repetition does"
    assert re.search(r"Limits: .+\.", comment)
    role = ROLES[f"/{method.containing_service.full_name}/{method.name}"]
    assert f"Role: {role.value if role else 'any'}." in comment
    errors = re.findall(r"Errors: ([A-Z_]+) \(([A-Z_, ]+)\): \S", comment)
    assert len(errors) == comment.count("Errors:") > 0
    check_codes(errors, comments)


@pytest.mark.parametrize("service", SERVICES, ids=lambda service: service.name)
def test_every_service_comment_names_the_errors_of_every_call(service, comments):
    text = " ".join(comments[service.full_name].split())
    _, _, listed = text.partition("Errors of every call: ")
    errors = re.findall(r"([A-Z_]+) \(([A-Z_, ]+)(?:: [^)]*)?\)", listed)
    assert {code for code, _ in errors} >= {"UNAUTHENTICATED", "PERMISSION_DENIED", "UNAVAILABLE", "INTERNAL"}
    check_codes(errors, comments)


def check_codes(errors, comments):
    for code, reasons in errors:
        assert code in CODES
        for reason in reasons.split(", "):
            said = comments[f"graphsvc.v1.ErrorReason.ERROR_REASON_{ErrorReason(reason).name}"]
            assert said.strip().startswith(code), f"{reason} is {said.split(':')[0].strip()}, not {code}"


@pytest.mark.parametrize("method", METHODS, ids=lambda method: method.name)
def test_reads_say_how_fresh_and_writes_answer_a_revision(method):
    asked, answered = method.input_type.fields_by_name, method.output_type.fields_by_name
    if "request_id" in asked:
        assert answered["revision"].message_type is core_pb2.RevisionToken.DESCRIPTOR
    elif asked:  # who the caller is stands in the credentials, at no revision of the graph
        assert asked["consistency"].message_type is core_pb2.Consistency.DESCRIPTOR
    if method.name.startswith("List"):
        assert {"page_size", "page_token"} <= set(asked)
        assert "next_page_token" in answered


TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
SCALARS = {
    FieldDescriptor.CPPTYPE_STRING: TEXT,
    FieldDescriptor.CPPTYPE_BOOL: st.booleans(),
    FieldDescriptor.CPPTYPE_INT32: st.integers(-(2**31), 2**31 - 1),
    FieldDescriptor.CPPTYPE_INT64: st.integers(-(2**63), 2**63 - 1),
    FieldDescriptor.CPPTYPE_DOUBLE: st.floats(allow_nan=False),
    # Just under the largest: printed as JSON, that one rounds up to what protobuf's own parser refuses.
    FieldDescriptor.CPPTYPE_FLOAT: st.floats(-(2.0**127), 2.0**127, width=32),
}


def values_of(field: FieldDescriptor):
    if field.cpp_type == FieldDescriptor.CPPTYPE_ENUM:
        return st.sampled_from([value.number for value in field.enum_type.values])
    if field.cpp_type == FieldDescriptor.CPPTYPE_MESSAGE:
        if field.message_type.full_name == "google.protobuf.Timestamp":
            whole = st.builds(dict, seconds=st.integers(-62135596800, 253402300799), nanos=st.integers(0, 999999999))
            return whole.map(lambda parts: message_factory.GetMessageClass(field.message_type)(**parts))
        return messages_of(field.message_type)
    return st.binary(max_size=8) if field.type == FieldDescriptor.TYPE_BYTES else SCALARS[field.cpp_type]


def messages_of(descriptor):
    made = message_factory.GetMessageClass(descriptor)
    fields = {}
    chosen = {oneof.fields[0].name for oneof in descriptor.oneofs}
    for field in descriptor.fields:
        if field.containing_oneof and field.name not in chosen:
            continue
        if field.message_type and field.message_type.GetOptions().map_entry:
            parts = field.message_type.fields_by_name
            fields[field.name] = st.dictionaries(values_of(parts["key"]), values_of(parts["value"]), max_size=2)
        elif field.is_repeated:
            fields[field.name] = st.lists(values_of(field), max_size=2)
        else:
            fields[field.name] = values_of(field)
    return st.fixed_dictionaries({}, optional=fields).map(lambda parts: made(**parts))


@pytest.mark.parametrize("descriptor", MESSAGES, ids=lambda descriptor: descriptor.name)
@settings(max_examples=15, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_every_message_round_trips(descriptor, data):
    message = data.draw(messages_of(descriptor))
    made = type(message)
    assert made.FromString(message.SerializeToString()) == message
    assert json_format.Parse(json_format.MessageToJson(message), made()) == message
    assert text_format.Parse(text_format.MessageToString(message), made()) == message


def test_generated_code_equals_a_regeneration(tmp_path):
    protoc(f"--python_out={tmp_path}", f"--pyi_out={tmp_path}", f"--grpc_python_out={tmp_path}")
    made = {path.name: path.read_text() for path in (tmp_path / "graphsvc" / "v1").iterdir()}
    there = {path.name: path.read_text() for path in (ROOT / "graphsvc" / "v1").glob("*_pb2*")}
    assert sorted(made) == sorted(there)
    assert [name for name in made if made[name] != there[name]] == []


@pytest.mark.parametrize("arguments", [("lint",), ("format", "--diff", "--exit-code")], ids=lambda one: one[0])
def test_buf_has_nothing_to_say(arguments):
    buf = Path(sys.executable).with_name("buf")
    done = subprocess.run([str(buf), *arguments, str(PROTO)], check=False, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, ""), done.stdout + done.stderr
