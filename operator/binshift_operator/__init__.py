"""The Kubernetes operator: turns a change of a StreamingDataflow into a live migration.

It owns the objects a dataflow is made of (StatefulSets, services, secrets) and the requests to the dataflow's control
API. It decides from what is, never from which event fired: observe, decide (pure), act. It never touches state, the log
or Spark, and imports only the pure modules of `binshift`. The version is that of the distribution `binshift`.
"""
