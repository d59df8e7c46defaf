"""Addresses that open Neo4j Browser on a statement."""

from __future__ import annotations

from urllib.parse import quote, urlsplit

from graphsvc.local.endpoints import StackEndpoints


def browser_url(endpoints: StackEndpoints, cypher: str | None = None, authentication: bool = True) -> str | None:
    """The address of Neo4j Browser, or None where the database has none that we know of.

    Args:
        endpoints: a stack's endpoints.
        cypher: statement put into the editor, not run; None opens it empty.
        authentication: False lets the Browser connect without asking for a user; for databases without authentication.
    """
    if endpoints.http_url is None:
        return None
    parts = urlsplit(endpoints.neo4j_uri)
    query = [("dbms", f"{parts.scheme}://{parts.netloc}"), ("db", endpoints.neo4j_database)]
    if not authentication:
        query.append(("preselectAuthMethod", "NO_AUTH"))
    if cypher:
        query += [("cmd", "edit"), ("arg", cypher)]
    # quote, not quote_plus: the Browser shows a plus sign where a space was.
    encoded = "&".join(f"{key}={quote(value, safe=':/')}" for key, value in query)
    return f"{endpoints.http_url}/browser/?{encoded}"
