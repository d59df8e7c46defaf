"""Ingest and the client commands, through gRPC on a real service."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from graphsvc.cli import main
from graphsvc.client import GraphsvcClient, Unit
from graphsvc.domain.units import ContextUnitKind, EdgeType
from graphsvc.ingest import writer
from graphsvc.ingest.git import read_source
from graphsvc.ingest.plan import plan_source, utc_now
from graphsvc.ingest.writer import IngestProgress, Summary, read_known, share_session, write_plan
from tests.support.git_repos import GitRepo
from tests.support.service import Service

SESSION = "repo:app"
BODY = "\n".join(f"    value_{n} = compute({n}, 'some words to make it long enough')" for n in range(12))


def function(name: str, word: str = "x") -> str:
    return f"def {name}():\n    '''{word}'''\n{BODY}\n"


@pytest.fixture
def repo(tmp_path: Path) -> GitRepo:
    repo = GitRepo(tmp_path / "app")
    repo.commit(
        "Add the login\n\nBecause users must log in.", {"login.py": function("login"), "README.md": "# App\nHi"}
    )
    repo.commit(
        "Refresh tokens",
        {"tokens.py": "import login\n\n\n" + function("refresh"), "test_tokens.py": "import tokens\n", "c.json": "{}"},
    )
    return repo


async def ingest(client: GraphsvcClient, path: Path, progress: IngestProgress | None = None) -> Summary:
    known = await read_known(client, SESSION)
    plan = plan_source(read_source(path, 200), known.units, now=utc_now())
    return await write_plan(client, SESSION, plan, known, progress or IngestProgress())


async def units_of(client: GraphsvcClient, **where: object) -> dict[str, Unit]:
    return {u.unit_key: u async for u in client.list(SESSION, owner_session_id=SESSION, **where)}  # type: ignore[arg-type]


async def test_twice_and_after_a_commit(service: Service, repo: GitRepo) -> None:
    client = await service.client(await service.tenant())
    first = await ingest(client, repo.path)
    units = await units_of(client, with_content=True)
    assert first.created == len(units) == 12
    assert first.edges == {
        "causation added": 5, "dependency imports": 1, "dependency tests": 1, "provenance chunk": 5,
    }  # fmt: skip
    assert Counter(u.kind for u in units.values()) == {
        ContextUnitKind.STATE_SNAPSHOT: 10,
        ContextUnitKind.DECISION: 2,
    }
    chunk = next(u for u in units.values() if u.unit_key.endswith(":login"))
    assert chunk.content.startswith("login.py:1-14 def login\n")
    assert chunk.path == "login.py"

    second = await ingest(client, repo.path)
    assert (second.created, second.existing, second.edges) == (0, 12, {})

    repo.commit("Fix it", {"login.py": function("login", "fixed")})
    third = await ingest(client, repo.path)
    assert third.created == 3
    assert third.edges == {
        "causation changed": 1, "dependency imports": 1, "provenance chunk": 1, "supersession replaces": 1,
        "supersession version": 1,
    }  # fmt: skip
    current = await units_of(client, current_only=True)
    assert len(current) == 13
    old_chunk = (await units_of(client))[chunk.unit_key]
    assert old_chunk.superseded_by == next(u.unit_id for u in current.values() if u.unit_key.endswith(":login"))
    assert (await ingest(client, repo.path)).created == 0


async def test_what_is_broken_off_is_continued(
    service: Service, repo: GitRepo, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writer, "BATCH_UNITS", 2)
    client = await service.client(await service.tenant())

    class Interrupting(IngestProgress):
        def advanced(self, count: int) -> None:
            raise KeyboardInterrupt

    for written in (2, 4):
        with pytest.raises(KeyboardInterrupt):
            await ingest(client, repo.path, Interrupting())
        assert len(await units_of(client)) == written
    rest = await ingest(client, repo.path)
    assert rest.created == 8
    assert (await ingest(client, repo.path)).edges == {}


async def test_agents_share_a_session_name_and_not_its_units(service: Service, repo: GitRepo) -> None:
    tenant = await service.tenant()
    ann, bob = await service.client(tenant, "ann"), await service.client(tenant, "bob")
    await ingest(ann, repo.path)
    assert await units_of(bob) == {}
    assert await share_session(ann, SESSION) is True
    assert await share_session(ann, SESSION) is False
    assert {u.agent_id for u in (await units_of(bob)).values()} == {"ann"}
    repo.commit("Fix it", {"login.py": function("login", "fixed")})
    # Bob's units are his own: what he sees of Ann's changes nothing.
    assert (await ingest(bob, repo.path)).created == 14
    assert (await ingest(ann, repo.path)).created == 3
    mine = await units_of(bob, owner_agent_id="bob")
    ids = {u.unit_id for u in mine.values()}
    assert {relation.target_id for u in mine.values() for relation in u.relations} <= ids


async def test_more_relations_than_a_unit_may_be_put_with(service: Service, tmp_path: Path) -> None:
    repo = GitRepo(tmp_path / "app")
    many = "\n\n".join(f"# Part {n}\n" + "word " * 150 for n in range(300))
    repo.commit("long", {"long.md": many})
    client = await service.client(await service.tenant())
    await ingest(client, repo.path)
    repo.commit("gone", {"other.md": "x"}, remove=("long.md",))
    summary = await ingest(client, repo.path)
    assert summary.edges["supersession replaces"] == 300
    current = await units_of(client, current_only=True)
    assert {u.path for u in current.values() if u.kind is ContextUnitKind.STATE_SNAPSHOT} == {"long.md", "other.md"}
    assert (await ingest(client, repo.path)).created == 0


async def graphsvc(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str, str]:
    """Exit code, standard output and standard error of a command."""

    def call() -> int:
        with pytest.raises(SystemExit) as ended:
            main(words)
        return int(ended.value.code or 0)

    capsys.readouterr()
    with capture_logs():  # the service logs in this process
        code = await asyncio.to_thread(call)
    printed = capsys.readouterr()
    return code, printed.out, printed.err


async def test_commands(
    service: Service, repo: GitRepo, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    tenant = await service.tenant()
    monkeypatch.setenv("GRAPHSVC_API_KEY", await service.api_key(tenant, "me"))
    monkeypatch.setenv("GRAPHSVC_TARGET", service.target)
    monkeypatch.chdir(repo.path)

    code, out, err = await graphsvc(capsys, "ingest", "git", ".", "--share")
    assert (code, out.splitlines()[0]) == (0, "session repo:app: 5 files, 5 chunks, 2 commits")
    assert "units   12 created, 0 there already" in out
    assert "shared with every agent of the tenant\n" in out
    assert "app: 5 files, 2 commits read" in err
    code, out, err = await graphsvc(capsys, "ingest", "git", ".", "--share", "--json")
    assert (json.loads(out)["created"], err) == (0, "")

    code, out, _ = await graphsvc(capsys, "retrieve", "how does the token refresh work?", "--explain")
    assert code == 0
    assert "tokens.py refresh" in out
    assert "tokens spent" in out
    assert "tokens.py (Python, " in out
    code, out, _ = await graphsvc(capsys, "retrieve", "token refresh", "--json", "--budget", "500")
    answer = json.loads(out)
    assert answer["ledger"]["retrieval_budget"] == 500
    code, out, _ = await graphsvc(capsys, "retrieve", "token refresh", "--payload")
    assert "def refresh" in out
    assert "[retrieved id=" in out
    assert "tokens spent" not in out
    code, out, _ = await graphsvc(capsys, "explain", answer["retrieval_id"])
    assert (code, '"token refresh"' in out, "intercept" in out) == (0, True, True)
    code, out, err = await graphsvc(capsys, "explain", "nothing-here")
    assert (code, out) == (1, "")
    assert "RETRIEVAL_NOT_FOUND" in err

    code, out, _ = await graphsvc(capsys, "policy", "list")
    assert "repo:app" in out
    policy = json.loads((await graphsvc(capsys, "policy", "list", "--json"))[1])[0]["policy_id"]
    assert (await graphsvc(capsys, "policy", "delete", policy))[0] == 0
    assert "no policies" in (await graphsvc(capsys, "policy", "list"))[1]
    code, out, _ = await graphsvc(capsys, "policy", "create", "--grantee-agent", "bob", "--kind", "observation")
    assert (code, out.startswith("policy ")) == (0, True)

    docs = repo.path / "docs"
    docs.mkdir()
    (docs / "a.md").write_text("# A\n[b](b.md)\n")
    (docs / "b.md").write_text("# B\ntext\n")
    code, out, _ = await graphsvc(capsys, "ingest", "markdown", "docs", "--quiet")
    assert out.splitlines()[0] == "session docs:docs: 2 files, 2 chunks, 0 commits"
    assert f"1 {EdgeType.DEPENDENCY} mentions" in out

    monkeypatch.setenv("GRAPHSVC_API_KEY", "gsk_wrong_key")
    code, out, err = await graphsvc(capsys, "policy", "list")
    assert (code, out, err.count("\n")) == (1, "", 1)
    assert "CREDENTIALS_INVALID" in err


async def test_administration(
    service: Service,
    neo4j_endpoints: object,
    tenant_id: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("GRAPHSVC_NEO4J_URI", neo4j_endpoints.neo4j_uri)  # type: ignore[attr-defined]
    monkeypatch.setenv("GRAPHSVC_NEO4J_USER", neo4j_endpoints.neo4j_user)  # type: ignore[attr-defined]
    if neo4j_endpoints.neo4j_password:  # type: ignore[attr-defined]
        monkeypatch.setenv("GRAPHSVC_NEO4J_PASSWORD", neo4j_endpoints.neo4j_password)  # type: ignore[attr-defined]
    code, _, err = await graphsvc(capsys, "key", "create", "--tenant", tenant_id, "--agent", "a")
    assert (code, "TENANT_NOT_FOUND" in err) == (1, True)
    assert "created" in (await graphsvc(capsys, "tenant", "create", tenant_id))[1]
    assert "exists already" in (await graphsvc(capsys, "tenant", "create", tenant_id))[1]
    code, out, err = await graphsvc(capsys, "key", "create", "--tenant", tenant_id, "--agent", "a", "--expires", "2d")
    secret = out.strip()
    assert (code, secret.startswith("gsk_"), secret in err) == (0, True, False)
    assert await units_of(GraphsvcClient(service.target, api_key=secret)) == {}
    code, out, _ = await graphsvc(capsys, "key", "list", "--tenant", tenant_id)
    assert "reader, writer" in out
    assert secret.split("_")[2] not in out
    (key,) = json.loads((await graphsvc(capsys, "key", "list", "--tenant", tenant_id, "--json"))[1])
    assert (await graphsvc(capsys, "key", "revoke", key["key_id"], "--tenant", tenant_id))[0] == 0
    code, _, err = await graphsvc(capsys, "key", "revoke", key["key_id"], "--tenant", tenant_id)
    assert (code, "KEY_NOT_FOUND" in err) == (1, True)
