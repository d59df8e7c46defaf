// Every index of the database with its state.
// Mode: READ
// Params: none
// Returns:
//   name (string): the index.
//   type (string): RANGE, FULLTEXT, VECTOR or LOOKUP.
//   state (string): ONLINE, POPULATING or FAILED.
//   population_percent (float, 0 to 100): how much is indexed.
//   labels (list of string): labels or types; null for lookup indexes.
//   properties (list of string): in index order; null for lookup indexes.
//   dimensions (integer): numbers in a vector; null: no vector index.
// Order: name, as the server lists them
// Index: none
// Serves: schema.apply; graphsvc doctor
// Source: known_failures.md, Odd input (vectors of the wrong size)

CYPHER 25
SHOW INDEXES YIELD name, type, state, populationPercent, labelsOrTypes, properties, options
RETURN name, type, state, populationPercent AS population_percent, labelsOrTypes AS labels, properties,
  options.indexConfig['vector.dimensions'] AS dimensions;
