"""Savepoints, which users know as snapshots of a dataflow: complete copies of a running query's checkpoint at one epoch.

`saving` makes one while the stream runs, `restoring` starts another query from one, `removing` deletes one; `shelf` has those of a
query, for the control API. A savepoint is a checkpoint with a description, ``snapshot.json``, which is written last: a directory
without it is none. `layout` has the files that belong to it.
"""
