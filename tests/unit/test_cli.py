"""The command line without a service: help, errors, finding the service, printing."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

import pytest
import typer
from rich.console import Console

from graphsvc.cli import application, main
from graphsvc.cli.output import (
    ClientOptions,
    client_for,
    print_explanation,
    print_json,
    print_outcome,
    print_retrieval,
    run,
    unit_label,
)
from graphsvc.client import Explanation, GraphsvcCallError, RankedUnit, ReportedOutcome, Retrieval, Spending
from graphsvc.client import Path as GraphPath
from graphsvc.domain.candidates import CandidateSource, Contribution, Disposition, Outcome
from graphsvc.domain.errors import GraphsvcError
from graphsvc.domain.outcomes import ReferenceMethod, UnitOutcome
from graphsvc.domain.units import ContextUnitKind, EdgeType
from graphsvc.settings import Settings

COMMANDS = (
    "up", "serve", "demo", "doctor", "ingest", "retrieve", "explain", "report-outcome", "recalibrate", "predictors",
    "key", "policy", "tenant", "settings",
)  # fmt: skip


@pytest.fixture(autouse=True)
def own_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in [name for name in os.environ if name.startswith("GRAPHSVC_") and "_TEST_" not in name]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("GRAPHSVC_STATE_DIR", str(tmp_path / "state"))


def call(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str, str]:
    with pytest.raises(SystemExit) as ended:
        main(words)
    printed = capsys.readouterr()
    return int(ended.value.code or 0), printed.out, printed.err


def test_help_names_every_command(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = call(capsys, "--help")
    assert code == 0
    assert all(f"\n  {name} " in out for name in (*COMMANDS, "version"))
    assert "\n    graphsvc ingest git . " in out


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_loads(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = call(capsys, name, "--help")
    assert code == 0
    assert f"Usage: graphsvc {name}" in out


@pytest.mark.parametrize(
    "words",
    [["nope"], ["ingest", "git"], ["retrieve"], ["retrieve", "q", "--hops", "9"], ["retrieve", "q", "--budget", "x"],
     ["retrieve", "q", "--budget", "1", "--step-budget", "2"], ["key", "create", "--agent", "a"],
     ["key", "create", "--tenant", "t", "--agent", "a", "--expires", "soon"],
     ["policy", "create", "--kind", "everything"]],
)  # fmt: skip
def test_wrong_usage_is_exit_2(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = call(capsys, *words)
    assert (code, out) == (2, "")
    assert "Error: " in err
    assert "Traceback" not in err


def test_loading_the_command_line_loads_no_vendor_library() -> None:
    script = (
        "import sys; from graphsvc.cli import application; application('')\n"
        "print([m for m in ('grpc', 'neo4j', 'boto3', 'lmdb', 'numpy', 'tiktoken') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_a_refusal_is_one_line_and_exit_1(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert call(capsys, "ingest", "git", str(tmp_path / "none")) == (
        1, "", f"graphsvc: {tmp_path}/none is not a directory: name a repository or a folder (INGEST_FAILED)\n",
    )  # fmt: skip
    code, out, err = call(capsys, "retrieve", "why?")
    assert (code, out, err.count("\n")) == (1, "", 1)
    assert "start one with `graphsvc up` (GRAPH_UNAVAILABLE)" in err


def test_an_unknown_setting_is_refused(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("GRAPHSVC_TARGTE", "x")
    code, _, err = call(capsys, "retrieve", "why?")
    assert (code, "GRAPHSVC_TARGTE" in err, err.count("\n")) == (1, True, 1)


def test_nothing_answers(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("GRAPHSVC_API_KEY", "gsk_a_b")
    code, out, err = call(capsys, "policy", "list", "--target", "127.0.0.1:1")
    assert (code, out, err.count("\n")) == (1, "", 1)
    assert "the service does not answer" in err


def test_ctrl_c_is_exit_130(capsys: pytest.CaptureFixture[str]) -> None:
    async def interrupted() -> None:
        raise KeyboardInterrupt

    with pytest.raises(typer.Exit) as ended:
        run(interrupted())
    assert ended.value.exit_code == 130
    assert capsys.readouterr().err == "graphsvc: stopped\n"


def test_the_local_key_goes_to_the_local_service_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    state = tmp_path / "state"
    state.mkdir()
    (state / "service.json").write_text(json.dumps({"target": "127.0.0.1:5", "pid": os.getpid()}))
    with pytest.raises(GraphsvcError, match="GRAPHSVC_API_KEY"):
        client_for(ClientOptions())
    (state / "api_key").write_text("gsk_local_key\n")
    client = client_for(ClientOptions())
    assert (client._target, client._authorization[1]) == ("127.0.0.1:5", "Bearer gsk_local_key")
    with pytest.raises(GraphsvcError, match="no API key for far.example:1"):
        client_for(ClientOptions(target="far.example:1"))
    monkeypatch.setenv("GRAPHSVC_TARGET", "far.example:2")
    monkeypatch.setenv("GRAPHSVC_API_KEY", "gsk_mine_x")
    client = client_for(ClientOptions())
    assert (client._target, client._authorization[1]) == ("far.example:2", "Bearer gsk_mine_x")
    assert client_for(ClientOptions(api_key="gsk_other_x"))._authorization[1] == "Bearer gsk_other_x"
    with pytest.raises(GraphsvcError, match="--ca"):
        client_for(ClientOptions(certificates=tmp_path / "none.pem"))


def test_settings_lists_every_variable(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = call(capsys, "settings", "--json")
    rows = {row["variable"]: row for row in json.loads(out)}
    assert code == 0
    assert set(rows) == {f"GRAPHSVC_{name.upper()}" for name in Settings.model_fields}
    assert all(row["takes"] and row["default"] and row["description"] for row in rows.values())
    assert rows["GRAPHSVC_QUERY_TIMEOUT_MS"]["takes"] == "integer 10 to 60000"
    assert rows["GRAPHSVC_EMBEDDER"]["takes"] == "wordllama, minilm, none, openai, client"
    assert rows["GRAPHSVC_NEO4J_PASSWORD"]["takes"] == "secret"
    assert "GRAPHSVC_API_KEY" in call(capsys, "settings")[1]


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert call(capsys, "version")[1].startswith("graphsvc 0.")


def test_only_the_chosen_command_is_real() -> None:
    real = [
        command for command in application("settings").registered_commands if command.callback.__name__ != "_not_loaded"
    ]
    assert [command.name for command in real] == ["settings"]


def ranked(rank: int, **changes: object) -> RankedUnit:
    values: dict[str, object] = {
        "unit_id": f"unit{rank:08}", "unit_key": "chunk:a/b.py@0123456789ab#0002:serve",
        "kind": ContextUnitKind.STATE_SNAPSHOT,
        "path": "a/b.py", "rank": rank, "value": 0.5, "cost": 100, "value_cost_ratio": 0.005,
        "disposition": Disposition.SELECTED, "detail": "value 0.5 for 100 tokens",
        "sources": frozenset({CandidateSource.GRAPH, CandidateSource.VECTOR}),
        "graph_path": GraphPath(2, (EdgeType.PROVENANCE, EdgeType.DEPENDENCY), ("a", "b", "c"), 0.5),
        "topic_score": 0.25, "full_text_score": None, "vector_score": 0.7, "intercept": -2.0,
        "contributions": (Contribution("graph_distance", 2.0, 0.5, 1.5),), "superseded_by": "",
    }  # fmt: skip
    return RankedUnit(**{**values, **changes})  # type: ignore[arg-type]


LEDGER = Spending(5000, 100, 2000, 2900, 3, 100, 2797, 1, 30)


def retrieval() -> Retrieval:
    left = ranked(
        2, unit_key="", path="", graph_path=None, disposition=Disposition.OVER_BUDGET, detail="[red]does not fit[/]"
    )
    return Retrieval(
        "r1", Outcome.SELECTED, "1 of 31 candidates selected", "[retrieved id=x]\npayload [bold]text[/bold]\n", (),
        (ranked(1), left, *(ranked(n, disposition=Disposition.BELOW_VALUE, detail="") for n in range(3, 32))),
        31, LEDGER, "about_topic", (), True, "o200k_base", "f" * 64, 12.5, ("no embedder",),
    )  # fmt: skip


def printed(show: object) -> str:
    console = Console(width=160, file=io.StringIO())
    show(console)  # type: ignore[operator]
    return console.file.getvalue()  # type: ignore[attr-defined]


def test_print_retrieval() -> None:
    out = printed(lambda console: print_retrieval(retrieval(), console, max_rows=2, with_payload=True))
    first = next(line for line in out.splitlines() if "unit00000001" in line)
    expected = "1 unit00000001 a/b.py serve state_snapshot 2 prov dep 0.50 0.25 0.500 100 5.00 selected"
    assert " ".join(first.split()) == expected
    assert "over budget: [red]does not fit[/]" in out
    assert "and 29 more" in out
    assert "partial" in out
    assert "note: no embedder" in out
    assert "step 5000 tokens - overhead 100 - reasoning reserve 2000 = retrieval budget 2900" in out
    assert "100 of 2900 tokens spent, 3 charged for ranking, 2797 left, counted with o200k_base" in out
    assert "payload [bold]text[/bold]" in out
    assert "payload [bold]" not in printed(lambda console: print_retrieval(retrieval(), console))


def test_print_explanation() -> None:
    answer = retrieval()
    explanation = Explanation(
        "r1", "why?", "f", "", 0, datetime(2026, 1, 2, tzinfo=UTC), "about_topic", Outcome.SELECTED, LEDGER, False,
        answer.candidates, 12.5,
    )  # fmt: skip
    out = printed(lambda console: print_explanation(explanation, console))
    assert 'retrieval r1 of 2026-01-02 00:00:00 UTC: "why?"' in out
    assert "graph distance" in out
    assert "+0.75" in out


def test_print_outcome(capsys: pytest.CaptureFixture[str]) -> None:
    verdicts = (UnitOutcome("u1", (ReferenceMethod.CITATION,), "the output [cites] it"), UnitOutcome("u2", ()))
    out = printed(lambda console: print_outcome(ReportedOutcome(verdicts, replayed=True), console))
    assert [" ".join(line.split()) for line in out.splitlines()] == [
        "unit verdict how",
        "u1 referenced the output [cites] it",
        "u2 ignored",
        "1 of 2 units referenced, as reported before",
    ]
    print_json(ReportedOutcome(verdicts, replayed=False))
    assert json.loads(capsys.readouterr().out)["outcomes"][0]["methods"] == ["citation"]


def test_an_empty_report_is_wrong_usage(capsys: pytest.CaptureFixture[str]) -> None:
    code, _, err = call(capsys, "report-outcome", "r1")
    assert code == 2
    assert "--output" in err


def test_json(capsys: pytest.CaptureFixture[str]) -> None:
    print_json(retrieval())
    answer = json.loads(capsys.readouterr().out)
    assert answer["candidates"][0]["sources"] == ["graph", "vector"]
    assert answer["candidates"][0]["graph_path"]["edge_types"] == ["provenance", "dependency"]
    assert answer["outcome"] == "selected"
    print_json([])
    assert capsys.readouterr().out == "[]\n"


def test_unit_labels() -> None:
    assert unit_label("chunk:a.py@0123456789ab#0012:f", "a.py", "id") == "a.py f"
    assert unit_label("chunk:a.txt@0123456789ab#0012:", "a.txt", "id") == "a.txt #12"
    assert unit_label("commit:" + "ab" * 20, "", "id") == "commit abababababab"
    assert unit_label("", "", "id") == "id"


def test_a_call_that_fails_is_not_hidden() -> None:
    async def refused() -> None:
        raise GraphsvcCallError("NOT_FOUND", "UNIT_NOT_FOUND", "no such unit")

    with pytest.raises(GraphsvcCallError):
        run(refused())
