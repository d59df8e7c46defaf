// One (:Retrieval) a retrieval_id in a tenant.
// Mode: SCHEMA
// Params: none
// Returns: none
// Order: none
// Index: none
// Serves: schema.apply
// Source: design.md, Invariants (constraints back every MERGE)

CYPHER 25
CREATE CONSTRAINT retrieval_id IF NOT EXISTS
FOR (n:Retrieval) REQUIRE (n.tenant_id, n.retrieval_id) IS UNIQUE;
