"""Neo4j's jars: the shipped lock, and fetching what it names.

jgo resolves a Maven endpoint by reading hundreds of POMs one after the other. The lock (``neo4j.lock.json``, made by
``python -m graphsvc.local.relock``) already knows the answer, so the jars are fetched side by side through jgo's own
API, and each is checked against the lock's sha256 before it takes its place in the cache. No address is in the lock:
where jars come from is jgo's business.

Source: local_stack.md.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import logging
import os
import shutil
import tempfile
import threading
from collections.abc import Callable, Generator
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import asdict, dataclass
from importlib import resources
from pathlib import Path
from typing import Any, cast

from tenacity import Retrying, retry_if_exception_type, stop_after_attempt, wait_exponential_jitter

from graphsvc.domain.errors import ErrorReason, LocalFault
from graphsvc.local.progress import StackProgress

NEO4J_VERSION = "2026.09.0"
BROWSER_VERSION = "5.24.0"
ENDPOINT = (
    f"org.neo4j:neo4j:{NEO4J_VERSION}+org.neo4j.app:neo4j-server:{NEO4J_VERSION}"
    f"+org.neo4j.client:neo4j-browser:{BROWSER_VERSION}"
)
"""What the lock resolves, in jgo's notation."""

LOCK_NAME = "neo4j.lock.json"
FETCH_THREADS = 16
FETCH_ATTEMPTS = 5
"""Attempts per jar; waits between them grow from half a second to ten."""


@dataclass(frozen=True, slots=True)
class Artifact:
    """One jar of the lock.

    Attributes:
        group_id: Maven group.
        artifact_id: Maven artifact.
        version: exact version.
        classifier: Maven classifier, "" for the main jar.
        packaging: file ending without the dot.
        sha256: hexadecimal digest of the file.
        size_bytes: size of the file.
    """

    group_id: str
    artifact_id: str
    version: str
    classifier: str
    packaging: str
    sha256: str
    size_bytes: int

    @property
    def coordinate(self) -> str:
        """The coordinate as jgo writes it, for messages."""
        parts = [self.group_id, self.artifact_id, self.version, self.classifier]
        return ":".join(part for part in parts if part)

    @property
    def file_name(self) -> str:
        """The name in the cache; unique in a lock, because the group leads it."""
        classifier = f"-{self.classifier}" if self.classifier else ""
        return f"{self.group_id}.{self.artifact_id}-{self.version}{classifier}.{self.packaging}"


@dataclass(frozen=True, slots=True)
class Lock:
    """What Neo4j is made of.

    Attributes:
        endpoint: what was resolved, in jgo's notation.
        artifacts: the jars in class-path order.
    """

    endpoint: str
    artifacts: tuple[Artifact, ...]

    @property
    def size_bytes(self) -> int:
        """Bytes of all jars together."""
        return sum(artifact.size_bytes for artifact in self.artifacts)

    @property
    def digest(self) -> str:
        """Sixteen hexadecimal digits that change with any jar: the key of what is derived from the set."""
        whole = "\n".join(f"{artifact.file_name} {artifact.sha256}" for artifact in self.artifacts)
        return hashlib.sha256(whole.encode()).hexdigest()[:16]


def read_lock() -> Lock:
    """The lock shipped with the package."""
    raw = json.loads(resources.files("graphsvc.local").joinpath(LOCK_NAME).read_text(encoding="utf-8"))
    return Lock(endpoint=raw["endpoint"], artifacts=tuple(Artifact(**item) for item in raw["artifacts"]))


def write_lock(lock: Lock, path: Path) -> None:
    """Writes the lock as JSON, one line per jar so that a change reads well in a diff."""
    lines = ",\n".join("    " + json.dumps(asdict(artifact)) for artifact in lock.artifacts)
    path.write_text(
        f'{{\n  "endpoint": {json.dumps(lock.endpoint)},\n  "artifacts": [\n{lines}\n  ]\n}}\n', encoding="utf-8"
    )


Download = Callable[[Artifact, Path, Callable[[int], None]], Path]
"""Fetches one artifact into an empty directory, reports bytes as they come, and gives the file's path."""


def fetch_neo4j(
    cache_dir: Path,
    progress: StackProgress | None = None,
    *,
    lock: Lock | None = None,
    download: Download | None = None,
) -> list[Path]:
    """The paths of Neo4j's jars, in class-path order, fetching those that the cache does not have.

    A jar enters the cache by a rename after its sha256 was checked, so an interrupted fetch goes on where it stopped.
    A cached jar is checked by its size and its modification time against the record made when its sha256 was checked;
    when they differ, by sha256 again. With everything cached this takes milliseconds and needs no network.

    Args:
        cache_dir: directory of what can be fetched again; made if absent.
        progress: what to tell about it.
        lock: what to fetch; the shipped lock by default.
        download: how to fetch one jar; through jgo by default.

    Raises:
        LocalFault: ARTIFACT_HASH_MISMATCH when a fetched jar is not the one of the lock; ARTIFACT_UNAVAILABLE when a
            jar could not be fetched.
    """
    lock = lock or read_lock()
    progress = progress or StackProgress()
    jars_dir = cache_dir / "neo4j" / "jars"
    record = _Record(cache_dir / "neo4j" / "verified.json")
    paths = [jars_dir / artifact.file_name for artifact in lock.artifacts]
    if not _missing(lock, jars_dir, record):
        return paths
    _make_directory(jars_dir)
    with _one_at_a_time(cache_dir / "neo4j" / "fetch.lock", progress):
        record = _Record(cache_dir / "neo4j" / "verified.json")
        missing = _missing(lock, jars_dir, record)
        if missing:
            _fetch_all(missing, jars_dir, record, progress, download or download_by_jgo)
    return paths


def _make_directory(path: Path) -> None:
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise LocalFault(
            ErrorReason.ARTIFACT_UNAVAILABLE,
            f"cannot make the cache directory {path}: {error.strerror}; set GRAPHSVC_CACHE_DIR to one you may write to",
        ) from error


class _Record:
    """Which cached files had their sha256 checked, with the size and time they had then."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = threading.Lock()
        self._entries: dict[str, list[Any]] = {}
        with contextlib.suppress(OSError, ValueError):
            self._entries = cast(dict[str, list[Any]], json.loads(path.read_text(encoding="utf-8")))

    def holds(self, path: Path, sha256: str) -> bool:
        """Whether the file is there and unchanged since its sha256 was found to be this one."""
        try:
            stat = path.stat()
        except OSError:
            return False
        return self._entries.get(path.name) == [sha256, stat.st_size, stat.st_mtime_ns]

    def add(self, path: Path, sha256: str) -> None:
        """Remembers that the file has this sha256."""
        stat = path.stat()
        with self._lock:
            self._entries[path.name] = [sha256, stat.st_size, stat.st_mtime_ns]

    def save(self) -> None:
        """Writes the record atomically."""
        with self._lock:
            partial = self._path.with_suffix(f".{os.getpid()}.part")
            partial.write_text(json.dumps(self._entries), encoding="utf-8")
            partial.replace(self._path)


def _missing(lock: Lock, jars_dir: Path, record: _Record) -> list[Artifact]:
    """The artifacts that are not in the cache as the lock has them; a changed file is hashed, and removed if wrong."""
    missing: list[Artifact] = []
    rehashed = False
    for artifact in lock.artifacts:
        path = jars_dir / artifact.file_name
        if record.holds(path, artifact.sha256):
            continue
        if path.is_file() and path.stat().st_size == artifact.size_bytes and sha256_of(path) == artifact.sha256:
            record.add(path, artifact.sha256)
            rehashed = True
            continue
        missing.append(artifact)
    if rehashed:
        with contextlib.suppress(OSError):
            record.save()
    return missing


@contextlib.contextmanager
def _one_at_a_time(path: Path, progress: StackProgress) -> Generator[None]:
    """A turn at the cache: two stacks that start together fetch once."""
    with path.open("a") as handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            progress.say("Another process is fetching Neo4j into the same cache; waiting for it")
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield


def _fetch_all(
    missing: list[Artifact], jars_dir: Path, record: _Record, progress: StackProgress, download: Download
) -> None:
    progress.fetch_started(len(missing), sum(artifact.size_bytes for artifact in missing))
    for left_over in jars_dir.parent.glob("partial-*"):
        shutil.rmtree(left_over, ignore_errors=True)
    partial_dir = Path(tempfile.mkdtemp(prefix="partial-", dir=jars_dir.parent))
    guard = threading.Lock()
    stopping = threading.Event()

    def advanced(jar_count: int, size_bytes: int) -> None:
        if stopping.is_set():
            raise _StoppedError
        with guard:
            progress.fetch_advanced(jar_count, size_bytes)

    pool = ThreadPoolExecutor(FETCH_THREADS, thread_name_prefix="fetch")
    try:
        # The largest first: a big jar begun last would be waited for alone.
        queue = sorted(missing, key=lambda artifact: -artifact.size_bytes)
        pending: set[Future[None]] = {
            pool.submit(_fetch_one, artifact, jars_dir, partial_dir, record, advanced, download) for artifact in queue
        }
        while pending:
            done, pending = wait(pending, timeout=0.5, return_when=FIRST_COMPLETED)
            for future in done:
                future.result()
    finally:
        # Ctrl-C ends here too: running downloads stop at their next chunk, and what is verified stays.
        stopping.set()
        pool.shutdown(wait=True, cancel_futures=True)
        record.save()
        shutil.rmtree(partial_dir, ignore_errors=True)
        progress.fetch_ended()


class _StoppedError(Exception):
    """The fetch is being ended; never leaves this module."""


def _fetch_one(
    artifact: Artifact,
    jars_dir: Path,
    partial_dir: Path,
    record: _Record,
    advanced: Callable[[int, int], None],
    download: Download,
) -> None:
    target = jars_dir / artifact.file_name
    received = 0

    def on_bytes(size_bytes: int) -> None:
        nonlocal received
        received += size_bytes
        advanced(0, size_bytes)

    def attempt() -> Path:
        nonlocal received
        if received:
            advanced(0, -received)
            received = 0
        # Fresh for each attempt: jgo takes a half-written file for a whole one.
        return download(artifact, Path(tempfile.mkdtemp(dir=partial_dir)), on_bytes)

    retrying = Retrying(
        stop=stop_after_attempt(FETCH_ATTEMPTS),
        wait=wait_exponential_jitter(initial=0.5, max=10),
        # requests' errors are OSErrors: refused, reset, timed out, cut off.
        retry=retry_if_exception_type(OSError),
        reraise=True,
    )
    try:
        path = retrying(attempt)
    except (OSError, RuntimeError) as error:
        raise LocalFault(
            ErrorReason.ARTIFACT_UNAVAILABLE,
            f"could not fetch {artifact.coordinate} ({_cause(error)}): check the network and the proxy settings, then"
            " start again; what has been fetched is kept",
            artifact=artifact.coordinate,
        ) from error
    got = sha256_of(path)
    if got != artifact.sha256:
        raise LocalFault(
            ErrorReason.ARTIFACT_HASH_MISMATCH,
            f"{artifact.coordinate} is not the file of the lock: expected sha256 {artifact.sha256}, got {got}"
            f" ({path.stat().st_size} bytes for {artifact.size_bytes}). It was thrown away. Start again; if it happens"
            " again, a proxy or mirror between here and the registry alters files: do not use it",
            artifact=artifact.coordinate,
            expected=artifact.sha256,
            got=got,
        )
    path.replace(target)
    record.add(target, artifact.sha256)
    advanced(1, 0)


def _cause(error: BaseException) -> str:
    """The kind of the innermost error, without the addresses that its text may have."""
    while (inner := error.__cause__ or error.__context__) is not None:
        error = inner
    return type(error).__name__ if isinstance(error, OSError) else "not found in the registry"


def download_by_jgo(artifact: Artifact, directory: Path, on_bytes: Callable[[int], None]) -> Path:
    """The path of the artifact's file, fetched by jgo into a directory of its own."""
    from jgo.maven import MavenContext, PythonResolver  # jgo takes 0.3 s to import, and a warm start never needs it

    logging.getLogger("jgo").setLevel(logging.ERROR)

    @contextlib.contextmanager
    def reporting(_name: str, _size_bytes: int) -> Generator[Callable[[int], None]]:
        yield on_bytes

    context = MavenContext(
        repo_cache=directory, resolver=PythonResolver(progress_callback=cast(Any, reporting)), timeout=30
    )
    component = context.project(artifact.group_id, artifact.artifact_id).at_version(artifact.version)
    return component.artifact(classifier=artifact.classifier, packaging=artifact.packaging).resolve()


def sha256_of(path: Path) -> str:
    """The hexadecimal sha256 of a file."""
    with path.open("rb") as handle:
        return hashlib.file_digest(handle, "sha256").hexdigest()
