"""The operator's vocabulary: what a dataflow should be, what is, what is to be done, what its status says.

Frozen values and the arithmetic on them; pure, so that everything that decides is made of them alone. Times are seconds
since 1970, durations seconds, sizes bytes; text that people wrote (durations, quantities) is read once, in `specification`.
"""
