"""The demo: a year of real flights replayed as a stream, on a local cluster that goes from 2 to 4 to 3 workers meanwhile.

The dataflow is `flights.py` in the folder above, an ordinary program; what is here stands around it, as a user would:

- `dataset`, `replay`: real flights, written for the query file by file, on a fixed schedule
- `consumed`, `latency_log`, `watcher`: which rows each epoch took and when it was committed, hence each row's latency
- `scenario`: the worker processes and the rescales
- `results`, `reference`: the query's last row of each key, and the same result by pandas
- `screen`, `picture`, `report`: the output: the live table, the plot, the numbers
- `environment`, `show`, `command`: the cluster and the session, the order of things, the command line

It must not reach into a running query: it uses what every user of one has.
"""
