"""`binshift run` and the commands that steer what it runs: a dataflow on a cluster on this machine.

One process, `run`, starts the cluster and the user's program and supervises both: it repeatedly observes the state, passes it
to the pure `binshift.rescale.decide`, and carries out the decision. The Kubernetes operator does the same with pods.

`directory` is shared by the run and the commands: a folder that only its user can open, with the address and the token of the
control API and with the desired scale. A command never talks to the supervisor: it writes the desired scale, or calls the
control API. So nothing is lost when either of them is killed.

`program` runs inside the user's process and is the only one here that touches Spark.
"""
