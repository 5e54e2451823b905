"""The state of a query, read from its log: without the program, without Spark, and without changing anything."""
