// One (:UnitEmbedding) a unit.
// Mode: SCHEMA
// Params: none
// Returns: none
// Order: none
// Index: none
// Serves: schema.apply
// Source: design.md, Invariants (constraints back every MERGE)

CYPHER 25
CREATE CONSTRAINT unit_embedding_id IF NOT EXISTS
FOR (n:UnitEmbedding) REQUIRE (n.tenant_id, n.unit_id) IS UNIQUE;
