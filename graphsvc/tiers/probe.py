"""What ``graphsvc doctor`` asks LMDB and S3. Neither probe changes anything that the service has written."""

from __future__ import annotations

import contextlib
import secrets
import shutil
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

import boto3.session
import lmdb
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError

from graphsvc.domain.errors import ErrorReason, FailedPrecondition, Unavailable

PROBE_FOLDER = "doctor-probe"
"""Two parts make no content key, so neither the reconciler nor a listing takes a probe for content."""
_LOOPBACK = frozenset({"127.0.0.1", "::1", "localhost"})


@dataclass(frozen=True, slots=True)
class WarmProbe:
    """An LMDB environment as it is on disk.

    Attributes:
        exists: whether there is one yet.
        map_bytes: size of its map.
        used_bytes: pages in use, free ones inside the file included.
        free_bytes: free space of the disk it is or will be on.
    """

    exists: bool
    map_bytes: int
    used_bytes: int
    free_bytes: int


def probe_warm(path: Path) -> WarmProbe:
    """The state of the LMDB environment; it may be open in a running service.

    Args:
        path: its directory.

    Raises:
        FailedPrecondition: CONTENT_CORRUPT, it cannot be opened.
    """
    existing = next(parent for parent in (path, *path.absolute().parents) if parent.exists())
    free = shutil.disk_usage(existing).free
    if not (path / "data.mdb").exists():
        return WarmProbe(exists=False, map_bytes=0, used_bytes=0, free_bytes=free)
    try:
        # As large as it is on disk; read-only; with the lock table, which keeps a writer from reusing pages that are
        # read here.
        with contextlib.closing(
            lmdb.open(str(path), map_size=0, readonly=True, create=False, max_dbs=4)
        ) as environment:
            info = environment.info()
            page_bytes = environment.stat()["psize"]
            with environment.begin() as transaction, transaction.cursor() as cursor:
                cursor.first()
    except (lmdb.Error, OSError) as error:
        raise FailedPrecondition(
            ErrorReason.CONTENT_CORRUPT,
            f"the LMDB directory {path} cannot be opened ({type(error).__name__}): check its owner and the disk, or"
            " restore it from a backup",
        ) from error
    return WarmProbe(
        exists=True, map_bytes=info["map_size"], used_bytes=(info["last_pgno"] + 1) * page_bytes, free_bytes=free
    )


def probe_cold(*, endpoint: str, access_key: str, secret_key: str, region: str, bucket: str, prefix: str) -> bool:
    """Whether the bucket is there; if so, an object was put, read back and deleted in it.

    Args:
        endpoint: address of the S3 endpoint.
        access_key: access key id.
        secret_key: secret key.
        region: sent to the endpoint.
        bucket: not made here when absent.
        prefix: of every key.

    Raises:
        Unavailable: COLD_STORE_UNAVAILABLE, no answer, a refusal, or another content read back than was put.
    """
    loopback = urlsplit(endpoint).hostname in _LOOPBACK
    client = boto3.session.Session().client(  # pyright: ignore[reportUnknownMemberType]
        "s3",
        endpoint_url=endpoint,
        region_name=region,
        aws_access_key_id=access_key,
        aws_secret_access_key=secret_key,
        config=Config(
            connect_timeout=3,
            read_timeout=10,
            retries={"mode": "standard", "total_max_attempts": 2},
            s3={"addressing_style": "path"},
            request_checksum_calculation="when_required",
            response_checksum_validation="when_required",
            proxies={} if loopback else None,
        ),
    )
    key = f"{prefix}{PROBE_FOLDER}/{secrets.token_hex(8)}"
    content = secrets.token_bytes(64)
    try:
        with contextlib.closing(client):
            try:
                client.head_bucket(Bucket=bucket)
            except ClientError as error:
                if error.response.get("ResponseMetadata", {}).get("HTTPStatusCode") == 404:
                    return False
                raise
            client.put_object(Bucket=bucket, Key=key, Body=content)
            try:
                read = client.get_object(Bucket=bucket, Key=key)["Body"].read()
            finally:
                client.delete_object(Bucket=bucket, Key=key)
    except ClientError as error:
        code = str(error.response.get("Error", {}).get("Code", "")) or "refused"
        raise Unavailable(
            ErrorReason.COLD_STORE_UNAVAILABLE,
            f"the object store answers {code}: check GRAPHSVC_S3_ACCESS_KEY, GRAPHSVC_S3_SECRET_KEY, GRAPHSVC_S3_BUCKET"
            " and what the key may do (put, get, delete)",
        ) from error
    except (BotoCoreError, ValueError) as error:
        raise Unavailable(
            ErrorReason.COLD_STORE_UNAVAILABLE,
            f"the object store does not answer ({type(error).__name__}): check that it runs and GRAPHSVC_S3_ENDPOINT",
        ) from error
    if read != content:
        raise Unavailable(
            ErrorReason.COLD_STORE_UNAVAILABLE,
            "the object store gave back another content than was put: do not use it",
        )
    return True
