// One (:Tenant) a tenant_id.
// Mode: SCHEMA
// Params: none
// Returns: none
// Order: none
// Index: none
// Serves: schema.apply
// Source: design.md, Invariants (constraints back every MERGE)

CYPHER 25
CREATE CONSTRAINT tenant_id IF NOT EXISTS
FOR (n:Tenant) REQUIRE (n.tenant_id) IS UNIQUE;
