"""Decides the next actions for one dataflow, and its new status, from the observed state and the spec alone. Pure.

With `spec.autoscaling`, the number of executors is that of `autoscaling`. Then `decide` tries these rows from the top; the first that
applies ends the decision:

| condition | actions | module |
|---|---|---|
| the dataflow is being deleted | none: its children are garbage-collected | `decision` |
| it is paused | none; only the status is updated | `decision` |
| its spec cannot be parsed | none; only the status is updated | `decision` |
| a child's name is taken by a foreign object | none; report it | `decision` |
| the checkpoint is not usable, and nothing runs yet | create the other children, report it | `decision` |
| its ServiceAccount does not exist, and nothing runs yet | create the other children, report it | `decision` |
| the snapshot that its checkpoint begins with is not complete, and nothing runs yet | delete a driver's pod that has not started, create the other children, report it | `decision` |
| the Secret is missing | create it, and the children that do not need it | `decision` |
| the dataflow is suspended | stop the query, delete the driver's pod, then the executors' | `stopping` |
| the program has ended by itself, as recorded for this spec | the same | `stopping` |
| a child cannot be rendered from the spec | keep the others in place, report it | `decision` |
| a pod was made for another restart hash or Secret, except executors that can be rolled | if the ServiceAccount exists: dry-run the new templates; stop the query, delete the driver's pod, apply the templates, delete the outdated pods | `stopping` |
| the query was stopped, or has ended for an earlier spec, and should run | delete the driver's pod; the last row recreates it | `stopping` |
| the program has ended by itself | record it | `stopping` |
| otherwise | apply what is missing or has drifted; then follow `binshift.rescale`, with the slots that `rolling` plans | `workers` |
| the same, with a standby driver | if no driver is the active one, activate one, and delete the pod of one that may still run | `standby` |

Only its StatefulSet, whose pods of one slot never overlap, replaces a driver. Executors are removed only as `binshift.rescale` allows, or
once no query runs. The operator may be interrupted between any two actions; the next decision leads to the same end.
"""

from binshift_operator.decide.decision import Decision, decide

__all__ = ["Decision", "decide"]
