"""The catalog refuses statement files that break a rule."""

from __future__ import annotations

import pytest
from neo4j import exceptions as neo

from graphsvc.domain.errors import ErrorReason, GraphsvcError, Internal
from graphsvc.graph import faults
from graphsvc.graph.catalog import SHARED_FILE, Mode, load_catalog, read_sources

SHARED = read_sources()[SHARED_FILE]
GOOD = """// One thing.
// Mode: READ
// Params:
//   tenant_id (string, 1 to 64 bytes): whose;
//     a tenant.
// Returns:
//   n (integer): one.
// Order: none
// Index: none
// Serves: tests
// Source: none
:param tenant_id => 'x';

CYPHER 25
RETURN size($tenant_id) AS n;
"""


def load(text: str, path: str = "units/get_thing.cypher") -> None:
    load_catalog({SHARED_FILE: SHARED, path: text})


def test_a_good_file() -> None:
    statement = load_catalog({SHARED_FILE: SHARED, "units/get_thing.cypher": GOOD})["get_thing"]
    assert statement.text == "CYPHER 25\nRETURN size($tenant_id) AS n"
    assert statement.mode is Mode.READ
    assert [(p.name, p.meaning, p.example) for p in statement.params] == [("tenant_id", "whose; a tenant.", "'x'")]
    assert [column.name for column in statement.returns] == ["n"]


@pytest.mark.parametrize(
    ("old", "new", "rule"),
    [
        ("// Order: none\n", "", "lacks Order"),
        ("// Mode: READ", "// Mode: MAYBE", "Mode must be"),
        ("// Mode: READ", "// Mode: SCHEMA", "Mode must be"),
        (":param tenant_id => 'x';", ":param tenant_id => 'x'", "must read"),
        (":param tenant_id => 'x';\n", "", "differ"),
        ("AS n;", "AS n; RETURN 1;", "one statement"),
        ("AS n;", "AS n", "one statement"),
        ("size($tenant_id)", "size($other)", "differ"),
        ("// One thing.\n", "", "one sentence"),
        ("RETURN size", "MATCH (u:ContextUnit) RETURN size", "reads units without"),
        ("RETURN size", "// visible: begin\n// visible: end\nRETURN size", "differs"),
        ("RETURN size", "// other: begin\n// other: end\nRETURN size", "is not in"),
        ("RETURN size", "// visible: begin\nRETURN size", "no end"),
    ],
)
def test_a_broken_rule_is_named(old: str, new: str, rule: str) -> None:
    assert old in GOOD
    with pytest.raises(Internal, match=rule):
        load(GOOD.replace(old, new, 1))


def test_a_statement_needs_its_tenant() -> None:
    text = GOOD.replace("tenant_id", "name")
    with pytest.raises(Internal, match="must use \\$tenant_id"):
        load(text)
    load(text, "schema/show_thing.cypher")


def test_the_predicate_is_one_text() -> None:
    """A change of one file's predicate is refused, indentation aside."""
    sources = read_sources()
    holders = [path for path, text in sources.items() if "// visible: begin" in text and path != SHARED_FILE]
    assert holders
    for path in holders:
        changed = sources[path].replace("AND unit.kind IN grant.kinds", "", 1)
        with pytest.raises(Internal, match="part visible differs"):
            load_catalog({**sources, path: changed})


def test_stems_are_unique() -> None:
    with pytest.raises(Internal, match="same stem"):
        load_catalog({SHARED_FILE: SHARED, "units/a.cypher": GOOD, "registry/a.cypher": GOOD})


def test_an_unknown_name_is_a_bug() -> None:
    with pytest.raises(Internal):
        load_catalog()["absent"]


def every_exception() -> list[type[BaseException]]:
    return sorted(
        (c for c in vars(neo).values() if isinstance(c, type) and issubclass(c, (neo.DriverError, neo.Neo4jError))),
        key=lambda c: c.__name__,
    )


@pytest.mark.parametrize("kind", every_exception(), ids=lambda kind: kind.__name__)
def test_every_driver_exception_is_mapped(kind: type[BaseException]) -> None:
    """No fault of the network or the set-up is a bug of ours, and the driver's text is not in what callers read."""
    error = kind.__new__(kind)
    error.args = ("secret driver text",)
    if isinstance(error, neo.Neo4jError):
        error._neo4j_code = None
    domain = faults.to_domain(error)
    assert isinstance(domain, GraphsvcError)
    assert "secret" not in domain.message + str(domain.metadata)
    bugs = {
        "BrokenRecordError", "CertificateConfigurationError", "ConfigurationError", "AuthConfigurationError",
        "ClientError", "ConstraintError", "CypherSyntaxError", "CypherTypeError", "DatabaseError", "DriverError",
        "Neo4jError", "ResultConsumedError", "ResultError", "ResultFailedError", "ResultNotSingleError", "SessionError",
        "TransactionError", "TransactionNestingError",
    }  # fmt: skip
    assert (domain.reason is ErrorReason.INTERNAL_FAULT) == (kind.__name__ in bugs)


@pytest.mark.parametrize(
    ("code", "reason"),
    [
        ("Neo.ClientError.Transaction.TransactionTimedOut", ErrorReason.DEADLINE_PASSED),
        ("Neo.ClientError.Transaction.TransactionTimedOutClientConfiguration", ErrorReason.DEADLINE_PASSED),
        ("Neo.TransientError.Transaction.BookmarkTimeout", ErrorReason.REVISION_STALE),
        ("Neo.ClientError.Transaction.InvalidBookmark", ErrorReason.REVISION_TOKEN_INVALID),
        ("Neo.TransientError.Transaction.DeadlockDetected", ErrorReason.GRAPH_CONTENTION),
        ("Neo.TransientError.General.MemoryPoolOutOfMemoryError", ErrorReason.GRAPH_UNAVAILABLE),
        ("Neo.TransientError.General.DatabaseUnavailable", ErrorReason.GRAPH_UNAVAILABLE),
        ("Neo.ClientError.Security.Unauthorized", ErrorReason.GRAPH_UNAVAILABLE),
        ("Neo.ClientError.Statement.SyntaxError", ErrorReason.INTERNAL_FAULT),
        ("Neo.ClientError.Schema.ConstraintValidationFailed", ErrorReason.INTERNAL_FAULT),
    ],
)
def test_server_codes(code: str, reason: ErrorReason) -> None:
    error = neo.Neo4jError._hydrate_neo4j(code=code, message="secret driver text")
    domain = faults.to_domain(error)
    assert domain.reason is reason
    assert "secret" not in domain.message


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (TimeoutError(), ErrorReason.DEADLINE_PASSED),
        (ConnectionResetError(), ErrorReason.GRAPH_UNAVAILABLE),
        (ValueError("secret"), ErrorReason.INTERNAL_FAULT),
    ],
)
def test_other_errors(error: BaseException, reason: ErrorReason) -> None:
    assert faults.to_domain(error).reason is reason
