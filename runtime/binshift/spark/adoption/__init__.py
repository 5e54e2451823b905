"""Begins a query with the state of one that Spark has run: see `binshift.spark.adoption.adopting`."""
