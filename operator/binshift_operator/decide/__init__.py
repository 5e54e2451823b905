"""What to do next about one dataflow, and what to say about it: from what is and what should be, and nothing else.

`decide` is the whole of it. Rows are tried from the top; the first that holds ends the decision:

| what is | what to do | in |
|---|---|---|
| the dataflow is being deleted | nothing: its children go with it | `decision` |
| its spec cannot be read | touch nothing, say so and what is | `decision` |
| a child's name is taken by another's object | touch nothing, say so | `decision` |
| the checkpoint cannot be used, and nothing runs yet | wait, say so | `decision` |
| its ServiceAccount is not there, and nothing runs yet | wait, say so | `decision` |
| the Secret is not there | create it, and what does not need it | `decision` |
| it should rest | stop the query, end the driver's pod, then the executors' | `stopping` |
| the program has ended by itself, as is remembered for this spec | the same | `stopping` |
| a child cannot be rendered: the spec asks for what cannot be | keep what can be as it should be, say so | `decision` |
| a pod was made for another restart class or Secret | if the ServiceAccount is there, and the API server would take the new templates: stop the query, end the driver's pod, put the templates in place, delete such pods | `stopping` |
| the query was stopped, or has ended for an earlier spec, and should run | end the driver's pod; the last row brings it back | `stopping` |
| the program has ended by itself | remember it | `stopping` |
| otherwise | put in place what is missing or different; then as `binshift.rescale` says | `workers` |

A driver is replaced by its StatefulSet alone, whose pods never overlap; executors are removed only as `binshift.rescale`
allows, or once no query runs. Everything may be interrupted between any two actions, and leads to the same end.
"""

from binshift_operator.decide.decision import Decision, decide
from binshift_operator.decide.limits import Limits

__all__ = ["Decision", "Limits", "decide"]
