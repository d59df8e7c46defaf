"""Makes ``neo4j.lock.json`` anew: ``python -m graphsvc.local.relock [PATH]``.

Run it after changing NEO4J_VERSION or BROWSER_VERSION in artifacts.py. It resolves the endpoint with jgo (two minutes:
every POM is read), fetches each jar, and writes coordinate, size and sha256. Read the diff before committing it.
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, cast

from graphsvc.local.artifacts import ENDPOINT, FETCH_THREADS, LOCK_NAME, Artifact, Lock, sha256_of, write_lock


def resolve_lock(endpoint: str) -> Lock:
    """The lock of an endpoint in jgo's notation, resolved and fetched now."""
    import jgo

    with tempfile.TemporaryDirectory() as scratch:
        # A repository of its own: what a user's ~/.m2 holds is not proof of what the registry serves.
        os.environ["M2_REPO"] = scratch
        resolved = cast(list[Any], jgo.resolve(endpoint))
        for item in resolved:
            item.context.repo_cache = Path(scratch)
        # Some artifacts are of packaging "pom": they bring dependencies, and no jar.
        jars = {item.key: item for item in resolved if item.packaging == "jar"}
        with ThreadPoolExecutor(FETCH_THREADS) as pool:
            artifacts = list(pool.map(_lock_one, jars.values()))
    artifacts.sort(key=lambda artifact: artifact.coordinate)
    doubles = [name for name, count in Counter(artifact.file_name for artifact in artifacts).items() if count > 1]
    if doubles:
        raise SystemExit(f"two artifacts have one file name: {', '.join(doubles)}")
    return Lock(endpoint=endpoint, artifacts=tuple(artifacts))


def _lock_one(item: Any) -> Artifact:
    path: Path = item.resolve()
    return Artifact(
        group_id=item.groupId,
        artifact_id=item.artifactId,
        version=item.version,
        classifier=item.classifier or "",
        packaging=item.packaging,
        sha256=sha256_of(path),
        size_bytes=path.stat().st_size,
    )


def main(arguments: list[str]) -> None:
    """Writes the lock to the path given, or over the one in the package."""
    path = Path(arguments[0]) if arguments else Path(__file__).with_name(LOCK_NAME)
    lock = resolve_lock(ENDPOINT)
    write_lock(lock, path)
    print(f"{path}: {len(lock.artifacts)} jars, {lock.size_bytes / 1e6:.0f} MB")


if __name__ == "__main__":
    main(sys.argv[1:])
