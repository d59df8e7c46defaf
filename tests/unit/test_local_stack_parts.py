"""The parts of the local stack that need no server: ports, files, Browser addresses, handshake, locks, messages."""

from __future__ import annotations

import json
import socket
import stat
import subprocess
import sys
import threading
import time
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import psutil
import pytest

from graphsvc.domain.errors import ErrorReason, LocalFault
from graphsvc.local import neo4j
from graphsvc.local.bolt import bolt_version
from graphsvc.local.browser import browser_url
from graphsvc.local.endpoints import StackEndpoints, publish_endpoints, running_endpoints, withdraw_endpoints
from graphsvc.local.files import choose_ports, last_lines, make_private_directory, write_private
from graphsvc.local.neo4j import Neo4j, StackProfile, new_password
from graphsvc.local.progress import StackProgress
from graphsvc.local.s3 import S3Server
from graphsvc.local.supervisor import StateLock, end_recorded, record_path, recorded_processes

ENDPOINTS = StackEndpoints(
    neo4j_uri="bolt://127.0.0.1:17687",
    neo4j_user="neo4j",
    neo4j_password="hidden-password",
    http_url="http://127.0.0.1:17474",
    s3_endpoint="http://127.0.0.1:19000",
    s3_access_key="key",
    s3_secret_key="hidden-secret",
)


def test_passwords_are_long_different_and_no_option() -> None:
    passwords = {new_password() for _ in range(200)}
    assert len(passwords) == 200
    # "-..." was taken for an option by Neo4j's tool, once in 64 starts.
    assert all(password.isalnum() and len(password) >= 32 for password in passwords)


def test_browser_url_carries_statement_and_database_exactly() -> None:
    cypher = "MATCH (n:Task {task_id: 'T 1+1&x=%'})-[r]->(m)\nRETURN n, r, m // ü"
    url = browser_url(ENDPOINTS, cypher)
    assert url is not None
    parts = urlsplit(url)
    assert (parts.scheme, parts.netloc, parts.path) == ("http", "127.0.0.1:17474", "/browser/")
    assert "+" not in parts.query
    query = parse_qs(parts.query)
    assert query["arg"] == [cypher]
    assert query["dbms"] == ["bolt://127.0.0.1:17687"]
    assert query["db"] == ["neo4j"]
    assert query["cmd"] == ["edit"]
    assert "preselectAuthMethod" not in query
    assert "hidden" not in url


def test_browser_url_without_statement_or_authentication_or_browser() -> None:
    url = browser_url(ENDPOINTS, authentication=False)
    assert url is not None
    assert parse_qs(urlsplit(url).query)["preselectAuthMethod"] == ["NO_AUTH"]
    assert "cmd=" not in url
    remote = StackEndpoints("neo4j+s://db.example:7687", "u", "p", None, "https://s3.example", "k", "s")
    assert browser_url(remote, "RETURN 1") is None


def test_ports_are_remembered_different_and_refused_when_taken() -> None:
    first = choose_ports({"bolt_port": 0, "http_port": 0, "s3_port": 0}, {})
    assert len(set(first.values())) == 3
    assert choose_ports({"bolt_port": 0, "http_port": 0, "s3_port": 0}, first) == first
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", first["bolt_port"]))
        taken.listen(1)
        again = choose_ports({"bolt_port": 0, "http_port": 0, "s3_port": 0}, first)
        assert again["bolt_port"] != first["bolt_port"]
        assert again["s3_port"] == first["s3_port"]
        with pytest.raises(LocalFault, match="GRAPHSVC_BOLT_PORT") as fault:
            choose_ports({"bolt_port": first["bolt_port"]}, {})
        assert fault.value.reason is ErrorReason.LOCAL_STACK_FAILED


def test_private_files_are_private_from_the_first_byte(tmp_path: Path) -> None:
    make_private_directory(tmp_path / "state")
    path = tmp_path / "state" / "secret"
    write_private(path, "one")
    write_private(path, "two")
    assert path.read_text() == "two"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    assert [p.name for p in path.parent.iterdir()] == ["secret"]


def test_a_state_directory_that_cannot_be_made_says_what_to_do(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(LocalFault, match="GRAPHSVC_STATE_DIR"):
        make_private_directory(tmp_path / "file" / "state")


def test_last_lines_of_long_and_absent_files(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_text("".join(f"line {n}\n" for n in range(100_000)))
    assert last_lines(path, 2) == "  line 99998\n  line 99999"
    assert last_lines(tmp_path / "absent") == "  (empty)"


def test_s3_keys_are_generated_once_and_go_by_the_environment(tmp_path: Path) -> None:
    (tmp_path / "logs").mkdir()
    one, two = S3Server(state_dir=tmp_path, port=1), S3Server(state_dir=tmp_path, port=1)
    one.prepare()
    two.prepare()
    assert (one.access_key, one.secret_key) == (two.access_key, two.secret_key)
    assert stat.S_IMODE(one.keys_file.stat().st_mode) == 0o600
    spec = one.process()
    assert one.secret_key not in " ".join(spec.argv)
    assert one.secret_key in spec.env["RCLONE_AUTH_KEY"]
    assert one.secret_key not in repr(spec)
    assert "127.0.0.1:1" in spec.argv


@pytest.mark.parametrize(
    ("answer", "version"),
    [(bytes([0, 0, 8, 5]), (5, 8)), (bytes(4), None), (b"HTTP", (80, 84)), (b"", None), (bytes([0, 0]), None)],
)
def test_bolt_version_of_what_a_server_answers(answer: bytes, version: tuple[int, int] | None) -> None:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen(1)

        def serve() -> None:
            connection, _ = listener.accept()
            with connection:
                assert len(connection.recv(20)) == 20
                connection.sendall(answer)

        thread = threading.Thread(target=serve)
        thread.start()
        assert bolt_version("127.0.0.1", listener.getsockname()[1]) == version
        thread.join()


def test_bolt_version_where_nobody_listens() -> None:
    port = choose_ports({"bolt_port": 0}, {})["bolt_port"]
    assert bolt_version("127.0.0.1", port, timeout_s=0.2) is None


def test_endpoints_are_found_while_their_owner_lives(tmp_path: Path) -> None:
    assert running_endpoints(tmp_path) is None
    publish_endpoints(tmp_path, ENDPOINTS)
    assert running_endpoints(tmp_path) == ENDPOINTS
    path = tmp_path / "endpoints.json"
    raw = json.loads(path.read_text())
    raw["owner"]["create_time"] -= 100
    path.write_text(json.dumps(raw))
    assert running_endpoints(tmp_path) is None, "a reused pid is another process"
    withdraw_endpoints(tmp_path)
    withdraw_endpoints(tmp_path)
    assert "hidden" not in repr(ENDPOINTS)


def test_a_state_directory_is_locked_for_one_and_names_the_owner(tmp_path: Path) -> None:
    first, second = StateLock(tmp_path), StateLock(tmp_path)
    first.acquire(StackProgress())
    with pytest.raises(LocalFault, match=f"process {psutil.Process().pid} runs a local stack") as fault:
        second.acquire(StackProgress())
    assert fault.value.reason is ErrorReason.STATE_DIR_IN_USE
    first.release()
    second.acquire(StackProgress())
    second.release()


def test_recorded_processes_are_ended_and_foreign_ones_are_not(tmp_path: Path) -> None:
    program = "import sys, time; time.sleep(600)"
    ours = subprocess.Popen([sys.executable, "-c", program, "--home-dir=ours"])
    foreign = subprocess.Popen([sys.executable, "-c", program, "--home-dir=other"])
    try:
        entries = [
            {
                "name": "neo4j",
                "pid": process.pid,
                "create_time": psutil.Process(process.pid).create_time() - age,
                "marker": "--home-dir=ours",
            }
            for process, age in ((ours, 0), (foreign, 0), (foreign, 1000))
        ]
        # A foreign process with a recorded pid: one has another command line, one has another start.
        record_path(tmp_path).write_text(json.dumps({"processes": entries}))
        assert [process.pid for process in recorded_processes(tmp_path)] == [ours.pid]
        assert end_recorded(tmp_path) == 1
        assert ours.poll() is not None
        assert foreign.poll() is None
        assert not record_path(tmp_path).exists()
        assert end_recorded(tmp_path) == 0
    finally:
        for process in (ours, foreign):
            process.kill()
            process.wait()


def server(state_dir: Path, profile: StackProfile = StackProfile.STANDARD) -> Neo4j:
    (state_dir / "logs").mkdir(exist_ok=True)
    (state_dir / "neo4j-conf").mkdir(exist_ok=True)
    (state_dir / "cache" / "neo4j").mkdir(parents=True, exist_ok=True)
    return Neo4j(
        state_dir=state_dir,
        cache_dir=state_dir / "cache",
        jars=[state_dir / "cache" / "a jar.jar"],
        bolt_port=choose_ports({"bolt_port": 0}, {})["bolt_port"],
        http_port=2,
        heap_mb=512,
        pagecache_mb=64,
        profile=profile,
    )


def test_only_the_test_profile_gives_up_speed(tmp_path: Path) -> None:
    standard, quick = server(tmp_path).process().argv, server(tmp_path, StackProfile.SHORT_LIVED).process().argv
    assert "-XX:TieredStopAtLevel=1" not in standard
    assert "-XX:TieredStopAtLevel=1" in quick
    assert "-Xmx512m" in standard
    assert not [key for key in server(tmp_path).process().env if key.startswith(("NEO4J_", "GRAPHSVC_"))]


@pytest.mark.parametrize(
    ("log", "advice"),
    [
        ("java.lang.OutOfMemoryError: Java heap space", "GRAPHSVC_NEO4J_HEAP_MB"),
        ("java.net.BindException: Address already in use", "GRAPHSVC_BOLT_PORT"),
        ("java.io.IOException: No space left on device", "free disk space"),
        ("org.neo4j.kernel.internal.locker.FileLockException: Lock file has been locked", "another Neo4j uses"),
        ("something else", "read "),
    ],
)
def test_a_failed_start_shows_the_last_lines_and_what_to_do(tmp_path: Path, log: str, advice: str) -> None:
    neo = server(tmp_path)
    neo.log.write_text(f"first\n{log}\n")
    (neo.home / "logs").mkdir(parents=True)
    (neo.home / "logs" / "neo4j.log").write_text("INFO Starting...\n")
    with pytest.raises(LocalFault) as fault:
        neo.wait_until_ready("p", lambda: 1, StackProgress())
    assert "Neo4j ended with code 1 while starting" in fault.value.message
    assert log in fault.value.message
    assert "INFO Starting..." in fault.value.message
    assert advice in fault.value.message.split("What to do: ")[1]


def test_a_start_that_takes_too_long_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(neo4j, "START_TIMEOUT_S", 0.2)
    begun = time.monotonic()
    with pytest.raises(LocalFault, match="not ready after"):
        server(tmp_path).wait_until_ready("p", lambda: None, StackProgress())
    assert time.monotonic() - begun < 5
