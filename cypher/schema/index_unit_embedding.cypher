// Vectors of units with the owner fields that a search filters by inside the index; not quantized, which costs memory and keeps recall.
// Mode: SCHEMA
// Params:
//   dimensions (integer, 1 to 4096): numbers in a vector.
// Returns: none
// Order: none
// Index: none
// Serves: schema.apply
// Source: local_stack.md (filter inside the vector index); cypher_perf.md, section 8
:param dimensions => 256;

CYPHER 25
CREATE VECTOR INDEX unit_embedding IF NOT EXISTS
FOR (n:UnitEmbedding) ON n.embedding
WITH [n.tenant_id, n.agent_id, n.session_id, n.kind, n.current]
OPTIONS {indexConfig: {
  `vector.dimensions`: $dimensions,
  `vector.similarity_function`: 'cosine',
  `vector.quantization.enabled`: false
}};
