// Tells which of the named contents have a catalog entry.
// Mode: READ
// Params:
//   tenant_id (string, 1 to 64 bytes): the tenant.
//   wanted (map): what is looked up: keys (list of lists, 1 to 10000: [unit_id, content_sha256] pairs).
// Returns:
//   keys (list of lists): those of the pairs that a unit has.
// Order: one row; its list has no order.
// Index: context_unit_id (unique seek).
// Serves: UnitStore.existing_content.
// Source: product.md, Content (the reconciler).
// Visibility: the service asks for itself, to remove content without an entry; no caller sees the answer.
:param tenant_id => 'demo';
:param wanted => {keys: [['aaaaaaaaaaaa', '00']]};

CYPHER 25
UNWIND $wanted.keys AS key
MATCH (unit:ContextUnit {tenant_id: $tenant_id, unit_id: key[0]})
WHERE unit.content_sha256 = key[1]
RETURN collect(key) AS keys;
