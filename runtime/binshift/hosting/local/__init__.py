"""`binshift run` and the commands that steer what it runs: a dataflow on a cluster on this machine.

One process, `run`, starts the cluster and the user's program and supervises both: again and again it looks at what is, asks
the pure `binshift.rescale.decide` what to do next, and does it. The Kubernetes operator does the same with pods.

`directory` is where the run and the commands meet: a folder that only its user can open, with the address and the token of
the control API and with what is asked for. A command never talks to the supervisor: it writes down what should be, or asks
the control API. So nothing is lost when either of them is killed.

`program` runs inside the user's process and is the only one here that touches Spark.
"""
