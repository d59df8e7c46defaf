// One (:Predictor) a version in a tenant.
// Mode: SCHEMA
// Params: none
// Returns: none
// Order: none
// Index: none
// Serves: schema.apply
// Source: design.md, Invariants (constraints back every MERGE)

CYPHER 25
CREATE CONSTRAINT predictor_version IF NOT EXISTS
FOR (n:Predictor) REQUIRE (n.tenant_id, n.version) IS UNIQUE;
