"""The built wheel in a fresh virtual environment: a real server process, met only through the client."""

from __future__ import annotations

import os
import subprocess
import sys
import tomllib
import venv
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from graphsvc.client import GraphsvcClient, RelationInput, UnitInput
from graphsvc.local.endpoints import StackEndpoints

ROOT = Path(__file__).parents[2]
SCENARIOS = sorted((Path(__file__).parent / "scenarios").glob("*.yaml"))


@pytest.fixture(scope="module")
def graphsvc_command(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The command of the installed wheel."""
    folder = tmp_path_factory.mktemp("wheel")
    subprocess.run(
        [sys.executable, "-m", "build", "--wheel", "--outdir", folder, ROOT], check=True, capture_output=True, text=True
    )
    (wheel,) = folder.glob("*.whl")
    venv.create(folder / "env", with_pip=True)
    python = folder / "env" / "bin" / "python"
    subprocess.run(
        [python, "-m", "pip", "install", "--quiet", "--constraint", ROOT / "constraints.txt", wheel], check=True
    )
    return folder / "env" / "bin" / "graphsvc"


@pytest.fixture(scope="module")
def environment(store_endpoints: StackEndpoints, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Variables for the command: these stores, a state directory of its own, nothing of this process's."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("GRAPHSVC_", "PYTHON"))}
    return {
        **kept,
        "GRAPHSVC_STATE_DIR": str(tmp_path_factory.mktemp("wheel-state")),
        "GRAPHSVC_NEO4J_URI": store_endpoints.neo4j_uri,
        "GRAPHSVC_NEO4J_USER": store_endpoints.neo4j_user,
        "GRAPHSVC_NEO4J_PASSWORD": store_endpoints.neo4j_password or "",
        "GRAPHSVC_S3_ENDPOINT": store_endpoints.s3_endpoint,
        "GRAPHSVC_S3_ACCESS_KEY": store_endpoints.s3_access_key,
        "GRAPHSVC_S3_SECRET_KEY": store_endpoints.s3_secret_key,
        "GRAPHSVC_S3_BUCKET": "wheel",
        "GRAPHSVC_GRPC_PORT": "0",
        "GRAPHSVC_QUERY_TIMEOUT_MS": "10000",
    }


@pytest.fixture(scope="module")
def target(
    graphsvc_command: Path, environment: dict[str, str], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[str]:
    """Address of `graphsvc serve`, run from a folder where no source is."""
    process = subprocess.Popen(
        [graphsvc_command, "serve"],
        env=environment,
        cwd=tmp_path_factory.mktemp("elsewhere"),
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        assert line.startswith("gRPC "), line
        yield line.split()[1].rstrip(";")
    finally:
        process.terminate()
        assert process.wait(30) == 0


@pytest.fixture
async def client(
    target: str, graphsvc_command: Path, environment: dict[str, str], tenant_id: str
) -> AsyncIterator[GraphsvcClient]:
    """A client of a fresh tenant, with a key made by the command line."""
    for arguments in (("tenant", "create", tenant_id), ("key", "create", "--tenant", tenant_id, "--agent", "a")):
        done = subprocess.run(
            [graphsvc_command, *arguments], env=environment, check=False, capture_output=True, text=True
        )
        assert done.returncode == 0, done.stderr
    api_key = next(word for word in done.stdout.split() if word.startswith("gsk_"))
    async with GraphsvcClient(target, api_key=api_key, timeout_s=60) as client:
        yield client


def test_the_command_says_its_version(graphsvc_command: Path) -> None:
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    assert version in subprocess.run([graphsvc_command, "version"], check=True, capture_output=True, text=True).stdout


@pytest.mark.parametrize("path", SCENARIOS, ids=lambda path: path.stem)
async def test_scenario(client: GraphsvcClient, path: Path) -> None:
    scenario: dict[str, Any] = yaml.safe_load(path.read_text())
    session = client.session("s1", model="gpt-5")
    units = [
        UnitInput(**{**unit, "relations": [RelationInput(**relation) for relation in unit.get("relations", ())]})
        for unit in scenario["put"]
    ]
    await session.put(units)
    answer = await session.retrieve(**scenario["retrieve"])
    expect = scenario["expect"]
    assert answer.outcome.value == expect["outcome"], answer.outcome_detail
    keys = [unit.unit_key for unit in answer.units]
    assert set(expect.get("selected", ())) <= set(keys)
    if expect.get("selected") == []:
        assert not keys
        assert not answer.payload
    assert answer.strategy == expect.get("strategy", answer.strategy)
    assert keys[:1] == [expect["first"]] if "first" in expect else True
    found = {candidate.unit_key: candidate for candidate in answer.candidates}
    for key, disposition in expect.get("dispositions", {}).items():
        assert found[key].disposition.value == disposition
    for key, hop_count in expect.get("hop_counts", {}).items():
        path_found = found[key].graph_path
        assert path_found is not None
        assert path_found.hop_count == hop_count
    assert answer.ledger.tokens_spent <= answer.ledger.retrieval_budget
