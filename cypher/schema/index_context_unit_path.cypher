// Units of a tenant by path; paths are at most 1,024 bytes, far below what a range index takes.
// Mode: SCHEMA
// Params: none
// Returns: none
// Order: none
// Index: none
// Serves: schema.apply
// Source: cypher_perf.md, section 4

CYPHER 25
CREATE RANGE INDEX context_unit_path IF NOT EXISTS
FOR (n:ContextUnit) ON (n.tenant_id, n.path);
