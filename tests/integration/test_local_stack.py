"""The local stack's life on real processes: start, second start, side by side, and every way to end."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import socket
import stat
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import neo4j
import psutil
import pytest

from graphsvc.doctor import Finding, Outcome, examine
from graphsvc.domain.errors import ErrorReason, LocalFault
from graphsvc.local.artifacts import NEO4J_VERSION
from graphsvc.local.bolt import bolt_version
from graphsvc.local.endpoints import running_endpoints
from graphsvc.local.stack import LocalStack, StackEndpoints, StackProfile
from graphsvc.settings import Settings

REPOSITORY = Path(__file__).parents[2]

_HOLDER = """
import sys, time
from pathlib import Path
from graphsvc.local.stack import LocalStack, StackProfile
from graphsvc.settings import Settings
stack = LocalStack(Settings(state_dir=Path(sys.argv[1])), profile=StackProfile.SHORT_LIVED)
stack.start()
print(" ".join(f"{name}={pid}" for name, pid in stack.pids.items()), flush=True)
time.sleep(600)
"""
"""A program that starts a stack, says the pids, and never ends it."""


def settings(state_dir: Path, **fields: object) -> Settings:
    return Settings.model_validate({"state_dir": state_dir, "neo4j_uri": None, "s3_endpoint": None, **fields})


@contextlib.contextmanager
def stack_on(state_dir: Path, **fields: object) -> Iterator[tuple[LocalStack, StackEndpoints]]:
    stack = LocalStack(settings(state_dir, **fields), profile=StackProfile.SHORT_LIVED)
    try:
        yield stack, stack.start()
    finally:
        stack.stop()


@contextlib.contextmanager
def holder(state_dir: Path) -> Iterator[tuple[subprocess.Popen[str], dict[str, int]]]:
    """A process of its own that holds a stack, and the pids of the servers."""
    process = subprocess.Popen(
        [sys.executable, "-c", _HOLDER, str(state_dir)], cwd=REPOSITORY, stdout=subprocess.PIPE, text=True
    )
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        assert line, "the stack did not start"
        yield process, {name: int(pid) for name, pid in (pair.split("=") for pair in line.split())}
    finally:
        process.kill()
        process.wait()


def run(endpoints: StackEndpoints, statement: str) -> list[object]:
    with neo4j.GraphDatabase.driver(
        endpoints.neo4j_uri, auth=(endpoints.neo4j_user, endpoints.neo4j_password)
    ) as driver:
        return [record.value() for record in driver.execute_query(statement).records]  # type: ignore[arg-type]


def gone(pids: dict[str, int], timeout_s: float = 30.0) -> bool:
    deadline = time.monotonic() + timeout_s
    while time.monotonic() < deadline:
        if not any(running(pid) for pid in pids.values()):
            return True
        time.sleep(0.05)
    return False


def running(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


@pytest.fixture(scope="module")
def kept_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A state directory that the tests of this module hand on: only the first start makes a database."""
    return tmp_path_factory.mktemp("kept")


def test_first_start_second_start_and_a_stack_beside_it(kept_dir: Path, tmp_path: Path) -> None:
    one, two = kept_dir, tmp_path / "a folder with spaces"
    with stack_on(one) as (stack, first):
        pids = stack.pids
        run(first, "CREATE (:Kept {value: 42})")
        assert stack.start() == first, "a started stack is not started twice"
        assert running_endpoints(one) == first
        _check_private(one, first)
        _check_loopback_only(pids)
        _check_secrets_not_on_command_lines(pids, first)

        _check_doctor(one, first)

        with pytest.raises(LocalFault) as refused:
            LocalStack(settings(one), profile=StackProfile.SHORT_LIVED).start()
        assert refused.value.reason is ErrorReason.STATE_DIR_IN_USE
        assert str(os.getpid()) in refused.value.message
        assert bolt_version("127.0.0.1", _port(first.neo4j_uri)), "the refused stack ended the running one"

        with stack_on(two) as (_, beside):
            assert run(beside, "MATCH (n:Kept) RETURN count(n)") == [0]
            assert run(first, "MATCH (n:Kept {value: 42}) RETURN count(n)") == [1]
    assert gone(pids, 5)
    assert running_endpoints(one) is None
    assert not (one / "processes.json").exists()

    with stack_on(one) as (_, again):
        assert again == first, "the same addresses and credentials"
        assert run(again, "MATCH (n:Kept {value: 42}) RETURN count(n)") == [1]


def _check_private(state_dir: Path, endpoints: StackEndpoints) -> None:
    assert stat.S_IMODE(state_dir.stat().st_mode) == 0o700
    for name in ("neo4j-password", "s3-keys.json", "endpoints.json"):
        assert stat.S_IMODE((state_dir / name).stat().st_mode) == 0o600, name
    assert endpoints.neo4j_password not in repr(endpoints)
    assert endpoints.s3_secret_key not in repr(endpoints)


def _check_loopback_only(pids: dict[str, int]) -> None:
    """Neo4j's fleet discovery listened on every address and broadcast to the network."""
    for name in ("neo4j", "s3"):
        sockets = psutil.Process(pids[name]).net_connections("inet")
        assert sockets
        for connection in sockets:
            assert connection.laddr.ip in ("127.0.0.1", "::1", "::ffff:127.0.0.1"), (name, connection)
            assert connection.type is not socket.SOCK_DGRAM, (name, connection)


def _check_secrets_not_on_command_lines(pids: dict[str, int], endpoints: StackEndpoints) -> None:
    for name, pid in pids.items():
        line = " ".join(psutil.Process(pid).cmdline())
        assert endpoints.neo4j_password not in line, name
        assert endpoints.s3_secret_key not in line, name


def _check_doctor(state_dir: Path, endpoints: StackEndpoints) -> None:
    async def collect() -> dict[str, Finding]:
        return {finding.name: finding async for finding in examine(settings(state_dir), endpoints)}

    found = asyncio.run(collect())
    assert found["neo4j"].found.startswith(f"Neo4j {NEO4J_VERSION}")
    for name in ("java", "credentials", "cypher 25", "clock", "lmdb", "tokenizers"):
        assert found[name].outcome is Outcome.OK, found[name]
    # The service has never run here: no schema, no bucket.
    for name in ("indexes", "s3"):
        assert found[name].outcome is Outcome.WARN, found[name]

    keys = {"s3_endpoint": endpoints.s3_endpoint, "s3_access_key": endpoints.s3_access_key}
    wrong = settings(state_dir, **keys, s3_secret_key="wrong" * 8)

    async def collect_wrong() -> dict[str, Finding]:
        return {finding.name: finding async for finding in examine(wrong, endpoints)}

    assert asyncio.run(collect_wrong())["s3"].outcome is Outcome.FAIL


def _port(uri: str) -> int:
    return int(uri.rsplit(":", 1)[1])


def test_a_dead_owner_leaves_nothing_and_loses_nothing(kept_dir: Path) -> None:
    with holder(kept_dir) as (process, pids):
        endpoints = running_endpoints(kept_dir)
        assert endpoints is not None
        run(endpoints, "CREATE (:Kept {value: 7})")
        process.send_signal(signal.SIGKILL)
        process.wait(10)
        # At once, while the dead owner's servers are still being ended.
        with stack_on(kept_dir) as (stack, again):
            assert not set(pids.values()) & set(stack.pids.values())
            assert run(again, "MATCH (n:Kept {value: 7}) RETURN count(n)") == [1]
        assert gone(pids, 1)


def test_after_kill_of_owner_and_watchdog_the_next_start_recovers(kept_dir: Path) -> None:
    with holder(kept_dir) as (process, pids):
        endpoints = running_endpoints(kept_dir)
        assert endpoints is not None
        run(endpoints, "CREATE (:Kept {value: 9})")
        os.kill(pids["watchdog"], signal.SIGKILL)
        process.send_signal(signal.SIGKILL)
        process.wait(10)
        assert running(pids["neo4j"])
        assert running(pids["s3"])

        bystander = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
        try:
            _claim_pid_for(kept_dir / "processes.json", bystander.pid)
            with stack_on(kept_dir) as (_, again):
                assert gone(pids, 1), "what was left behind is ended first"
                assert run(again, "MATCH (n:Kept {value: 9}) RETURN count(n)") == [1]
            assert bystander.poll() is None, "a process with a recorded pid, but another, is left alone"
        finally:
            bystander.kill()
            bystander.wait()


def _claim_pid_for(record: Path, pid: int) -> None:
    """Nothing; writes into the record that a pid, now a foreign process's, was one of the stack's."""
    raw = json.loads(record.read_text())
    raw["processes"].append({**raw["processes"][0], "pid": pid})
    raw["processes"].append(
        {**raw["processes"][0], "pid": pid, "create_time": psutil.Process(pid).create_time(), "marker": "--home-dir=/x"}
    )
    record.write_text(json.dumps(raw))


def test_a_failed_start_leaves_nothing_and_says_what_to_do(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen(1)
        port = int(taken.getsockname()[1])
        with pytest.raises(LocalFault, match=f"port {port} is in use.*GRAPHSVC_BOLT_PORT"):
            LocalStack(settings(tmp_path, bolt_port=port), profile=StackProfile.SHORT_LIVED).start()

    # A database whose password file was lost is not opened with a new password.
    (tmp_path / "neo4j" / "data" / "databases" / "system").mkdir(parents=True)
    stack = LocalStack(settings(tmp_path), profile=StackProfile.SHORT_LIVED)
    with pytest.raises(LocalFault, match="password file .* is gone: put the file back"):
        stack.start()
    assert stack.pids == {}
    assert not (tmp_path / "processes.json").exists()


def test_up_runs_in_the_foreground_until_sigterm(kept_dir: Path) -> None:
    with up_on(kept_dir, "--cypher", "RETURN 1 + 1") as process:
        assert process.stdout is not None
        lines: list[str] = []
        while not lines or "Ctrl-C" not in lines[-1]:
            lines.append(process.stdout.readline())
            assert lines[-1], "it ended"
        text = "".join(lines)
        endpoints = running_endpoints(kept_dir)
        assert endpoints is not None
        assert endpoints.neo4j_uri in text
        assert "/browser/?dbms=bolt" in text
        assert "arg=RETURN%201%20%2B%201" in text
        assert str(kept_dir / "neo4j-password") in text
        assert endpoints.neo4j_password not in text
        servers = recorded(kept_dir)
        assert set(servers) >= {"neo4j", "s3", "watchdog"}
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0
        assert gone(servers, 1)


def test_ctrl_c_while_starting_leaves_nothing(kept_dir: Path) -> None:
    with up_on(kept_dir) as process:
        while "neo4j" not in (servers := recorded(kept_dir)):
            assert process.poll() is None
            time.sleep(0.02)
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 0
        assert gone(servers, 1)
        assert not (kept_dir / "processes.json").exists()


@contextlib.contextmanager
def up_on(state_dir: Path, *options: str) -> Iterator[subprocess.Popen[str]]:
    """A running ``graphsvc up`` without the service."""
    program = "import typer; from graphsvc.cli.up import up; typer.run(up)"
    process = subprocess.Popen(
        [sys.executable, "-c", program, "--state-dir", str(state_dir), "--without-service", *options],
        cwd=REPOSITORY,
        stdout=subprocess.PIPE,
        text=True,
        # Shells start background jobs with SIGINT ignored, and children inherit it.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # noqa: PLW1509 - no threads here
    )
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def recorded(state_dir: Path) -> dict[str, int]:
    """The pids in the state directory's record, by name."""
    try:
        entries = json.loads((state_dir / "processes.json").read_text())["processes"]
    except OSError:
        return {}
    return {entry["name"]: entry["pid"] for entry in entries}
