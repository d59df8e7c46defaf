// One (:ContextUnit) a unit_id in a tenant; also the index by which units are sought.
// Mode: SCHEMA
// Params: none
// Returns: none
// Order: none
// Index: none
// Serves: schema.apply
// Source: design.md, Invariants (constraints back every MERGE)

CYPHER 25
CREATE CONSTRAINT context_unit_id IF NOT EXISTS
FOR (n:ContextUnit) REQUIRE (n.tenant_id, n.unit_id) IS UNIQUE;
