"""The operator's vocabulary: the spec, the observed state, actions, and the status.

Frozen values and the arithmetic on them; pure, so that all decisions consist of them alone. Times are in seconds since 1970, durations
in seconds, sizes in bytes; text that users wrote (durations, quantities) is parsed in `specification`.
"""
