"""Neo4j behind the ports: the driver, the catalog of statements, and the stores that run them."""
