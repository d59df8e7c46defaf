"""The cold tier: every content as an object in S3.

Source: product.md, Content.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, TypeVar
from urllib.parse import quote, unquote, urlsplit

import boto3
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError

from graphsvc.domain.errors import DataLoss, ErrorReason, Unavailable
from graphsvc.ports import ContentKey, StoredContent
from graphsvc.tiers.warm import matches_digest

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client

T = TypeVar("T")

THREADS = 16
"""Requests at once; the outbox uses half of them at most, so that reads always have the others."""
CONNECT_TIMEOUT_S = 1.0
READ_TIMEOUT_S = 5.0
ATTEMPTS = 2
"""Per request, with the SDK's backoff; the outbox has its own besides, and readers are told when to try again."""
RETRY_DELAY_MS = 1000

_DATE_PRECISION = timedelta(seconds=1)
"""HTTP dates have whole seconds, and listings may have more: an object is as young as it may be."""
_ABSENT = frozenset({"NoSuchKey", "NoSuchBucket", "NotFound", "404"})
_NO_BUCKET = frozenset({"NoSuchBucket"})
_LOOPBACK = frozenset({"127.0.0.1", "::1", "localhost"})


class ObjectRefused(Unavailable):
    """S3 answers, but does not take this request: others may go through."""


class ColdTier:
    """A bucket, or a prefix of one, that belongs to one graph.

    Args:
        endpoint: address of the S3 endpoint.
        access_key: access key id.
        secret_key: secret key.
        region: sent to the endpoint; the bucket is made there.
        bucket: made when absent.
        prefix: of every key.
    """

    def __init__(
        self, *, endpoint: str, access_key: str, secret_key: str, region: str, bucket: str, prefix: str
    ) -> None:
        self._endpoint = endpoint
        self._access_key = access_key
        self._secret_key = secret_key
        self._region = region
        self._bucket = bucket
        self._prefix = prefix
        self._executor = ThreadPoolExecutor(THREADS, thread_name_prefix="graphsvc-cold")
        self.request_count = 0
        """Calls made to S3, retries and the making of the bucket apart."""

    async def open(self) -> None:
        """Makes the client; S3 need not be there yet."""
        self._client = await asyncio.get_running_loop().run_in_executor(self._executor, self._connect)

    async def aclose(self) -> None:
        """Returns when no request is under way."""
        await asyncio.to_thread(self._executor.shutdown, cancel_futures=True)
        self._client.close()

    async def put(self, key: ContentKey, content: bytes) -> None:
        """Returns when S3 has acknowledged the content.

        Raises:
            Unavailable: COLD_STORE_UNAVAILABLE; an ObjectRefused when only this object is not taken.
        """

        def store() -> None:
            digest = base64.b64encode(hashlib.md5(content, usedforsecurity=False).digest()).decode()
            self._client.put_object(
                Bucket=self._bucket,
                Key=self._name(key),
                Body=content,
                ContentMD5=digest,  # S3 refuses what was damaged on the way
                ContentType="text/plain; charset=utf-8",
            )

        def store_in_new_bucket() -> None:
            self._create_bucket()
            store()

        await self._call(store, absent=_NO_BUCKET, otherwise=store_in_new_bucket)

    async def get(self, key: ContentKey) -> bytes | None:
        """The content, its digest checked; None when S3 does not have it.

        Raises:
            Unavailable: COLD_STORE_UNAVAILABLE.
            DataLoss: CONTENT_CORRUPT.
        """

        def fetch() -> bytes | None:
            response = self._client.get_object(Bucket=self._bucket, Key=self._name(key))
            with response["Body"] as body:
                content = body.read()
            if not matches_digest(key, content):
                raise content_corrupt(key)
            return content

        return await self._call(fetch, absent=_ABSENT, otherwise=lambda: None)

    async def delete(self, key: ContentKey, stored_before: datetime | None = None) -> None:
        """Returns when S3 does not have the content.

        Args:
            key: what to remove.
            stored_before: spare an object that S3 stored at or after this time; None: remove it whatever its age.

        Raises:
            Unavailable: COLD_STORE_UNAVAILABLE; an ObjectRefused when only this object is not removed.
        """

        def remove() -> None:
            if stored_before is not None:
                head = self._client.head_object(Bucket=self._bucket, Key=self._name(key))
                if head["LastModified"] + _DATE_PRECISION >= stored_before:
                    return
            self._client.delete_object(Bucket=self._bucket, Key=self._name(key))

        await self._call(remove, absent=_ABSENT, otherwise=lambda: None)

    async def list_keys(self, after: ContentKey | None, limit: int) -> tuple[StoredContent, ...]:
        """Contents by object name, after the given one, at most ``limit`` (1 to 1000); empty: there are no more.

        Objects under the prefix that are not contents are passed over.

        Raises:
            Unavailable: COLD_STORE_UNAVAILABLE.
        """

        def page() -> tuple[StoredContent, ...]:
            start = self._prefix if after is None else self._name(after)
            while True:
                response = self._client.list_objects_v2(
                    Bucket=self._bucket, Prefix=self._prefix, StartAfter=start, MaxKeys=limit
                )
                listed = response.get("Contents", [])
                found = [
                    StoredContent(key, item["LastModified"].astimezone(UTC))
                    for item in listed
                    if "Key" in item and "LastModified" in item and (key := self._key(item["Key"])) is not None
                ]
                if found or not response["IsTruncated"] or not listed:
                    return tuple(found[:limit])
                start = listed[-1].get("Key", start)

        return await self._call(page, absent=_ABSENT, otherwise=lambda: ())

    async def _call(self, work: Callable[[], T], *, absent: frozenset[str], otherwise: Callable[[], T]) -> T:
        def translated() -> T:
            try:
                try:
                    return work()
                except ClientError as error:
                    if _code(error) in absent:
                        return otherwise()
                    raise
            except ClientError as error:
                status = int(error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 500))
                if status >= 500 or status in (401, 403, 408, 409, 429):
                    raise _unavailable(_code(error)) from error
                raise ObjectRefused(
                    ErrorReason.COLD_STORE_UNAVAILABLE,
                    "the object store refuses a request",
                    code=_code(error),
                    retry_delay_ms=RETRY_DELAY_MS,
                ) from error
            except BotoCoreError as error:
                raise _unavailable(type(error).__name__) from error

        self.request_count += 1
        return await asyncio.get_running_loop().run_in_executor(self._executor, translated)

    def _connect(self) -> S3Client:
        loopback = urlsplit(self._endpoint).hostname in _LOOPBACK
        return boto3.session.Session().client(  # pyright: ignore[reportUnknownMemberType]
            "s3",
            endpoint_url=self._endpoint,
            region_name=self._region,
            aws_access_key_id=self._access_key,
            aws_secret_access_key=self._secret_key,
            config=Config(
                connect_timeout=CONNECT_TIMEOUT_S,
                read_timeout=READ_TIMEOUT_S,
                retries={"mode": "standard", "total_max_attempts": ATTEMPTS},
                max_pool_connections=THREADS,
                s3={"addressing_style": "path"},
                # other stores than Amazon's do not all know the newer checksums
                request_checksum_calculation="when_required",
                response_checksum_validation="when_required",
                # a proxy of the environment does not reach this machine's own ports
                proxies={} if loopback else None,
            ),
        )

    def _create_bucket(self) -> None:
        try:
            if self._region == "us-east-1":
                self._client.create_bucket(Bucket=self._bucket)
            else:
                self._client.create_bucket(
                    Bucket=self._bucket,
                    CreateBucketConfiguration={"LocationConstraint": self._region},  # pyright: ignore[reportArgumentType]
                )
        except ClientError as error:
            # another request was first; whether the bucket is ours, the put that follows will tell
            if _code(error) not in ("BucketAlreadyOwnedByYou", "BucketAlreadyExists"):
                raise

    def _name(self, key: ContentKey) -> str:
        # Where objects are files the digest's first byte keeps directories small: rclone reads the whole one at a put.
        digest = key.content_sha256
        return f"{self._prefix}{_quote(key.tenant_id)}/{digest[:2]}/{_quote(key.unit_id)}/{digest}"

    def _key(self, name: str) -> ContentKey | None:
        parts = name.removeprefix(self._prefix).split("/")
        if len(parts) != 4 or len(parts[3]) != 64:
            return None
        key = ContentKey(unquote(parts[0]), unquote(parts[2]), parts[3])
        return key if self._name(key) == name else None


def content_corrupt(key: ContentKey) -> DataLoss:
    """The error for a content that is nowhere as it was written."""
    return DataLoss(
        ErrorReason.CONTENT_CORRUPT,
        "a stored content does not match its digest: restore it from a backup, or delete the unit",
        unit_id=key.unit_id,
    )


def _quote(name: str) -> str:
    # a name of dots only would be a directory of its own kind where objects are files
    return quote(name, safe="").replace(".", "%2E")


def _code(error: ClientError) -> str:
    return str(error.response.get("Error", {}).get("Code", ""))


def _unavailable(cause: str) -> Unavailable:
    return Unavailable(
        ErrorReason.COLD_STORE_UNAVAILABLE,
        "the object store does not answer: check GRAPHSVC_S3_ENDPOINT and its keys, or try again",
        cause=cause,
        retry_delay_ms=RETRY_DELAY_MS,
    )
