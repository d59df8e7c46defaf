// One (:Task) a task_id in a tenant.
// Mode: SCHEMA
// Params: none
// Returns: none
// Order: none
// Index: none
// Serves: schema.apply
// Source: design.md, Invariants (constraints back every MERGE)

CYPHER 25
CREATE CONSTRAINT task_id IF NOT EXISTS
FOR (n:Task) REQUIRE (n.tenant_id, n.task_id) IS UNIQUE;
