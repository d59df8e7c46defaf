// One (:Query) a fingerprint in a tenant.
// Mode: SCHEMA
// Params: none
// Returns: none
// Order: none
// Index: none
// Serves: schema.apply
// Source: design.md, Invariants (constraints back every MERGE)

CYPHER 25
CREATE CONSTRAINT query_fingerprint IF NOT EXISTS
FOR (n:Query) REQUIRE (n.tenant_id, n.fingerprint) IS UNIQUE;
