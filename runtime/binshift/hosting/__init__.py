"""The processes around a user's program: on this machine (`local`, for `binshift run`) and in pods (`pod`, for the operator).

Both start Spark's processes and the program as children (`processes`), run the program with the control API next to it
(`program`), and copy what executors print to where users read it (`log_tail`). What is only here is how long processes live;
what they compute is not decided here. `kubectl` has the plugin `kubectl binshift`, which starts none of them; it and the commands of
`local` ask the control API by `client` and print by `display`. Nothing below this package may import it, except `binshift.local`, which starts processes.
"""
