// Units of a tenant by created_time.
// Mode: SCHEMA
// Params: none
// Returns: none
// Order: none
// Index: none
// Serves: schema.apply
// Source: cypher_perf.md, section 4

CYPHER 25
CREATE RANGE INDEX context_unit_created IF NOT EXISTS
FOR (n:ContextUnit) ON (n.tenant_id, n.created_time);
