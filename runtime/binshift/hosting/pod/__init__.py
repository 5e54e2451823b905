"""The processes inside the pods of a StreamingDataflow: what `binshift run` does on one machine, spread over a cluster.

| command | where | what |
|---|---|---|
| ``python -m binshift.hosting.pod.driver PROGRAM ...`` | driver pod | keeps the control API up and runs the user's program as a child |
| ``python -m binshift.hosting.pod.master`` | driver pod | Spark's master |
| ``python -m binshift.hosting.pod.worker`` | executor pods | Spark's worker, which starts the one executor |
| ``python -m binshift.hosting.pod.drain`` | executor pods, before they stop | has the worker's bins moved away |

Everything they need comes from the environment, as set by the creator of the pods; they know nothing of Kubernetes and run on
loopback addresses as well. `lifecycle` has the decisions, and is pure; `supervisor` carries them out, and answers while the
program has no query; `program` is the child, `channel` the messages between the two.
"""
