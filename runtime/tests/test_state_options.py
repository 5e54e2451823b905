"""The options of the state source, and the arguments of the commands around it."""

from __future__ import annotations

import pytest

from binshift.errors import InvalidQuery, InvalidSettings
from binshift.hosting.local.adopt import run_arguments
from binshift.state.options import StateOptions


def test_options_are_spark_s() -> None:
    """Names are case-insensitive, and every option has its place."""
    assert StateOptions.of({"path": "/a"}) == StateOptions("/a")
    given = {"PATH": "/a", "batchid": "7", "operatorId": "2", "joinSide": "Left", "snapshotPartitionId": "3"}
    assert StateOptions.of(given) == StateOptions("/a", 2, "left", 7, bin=3)  # type: ignore[arg-type]
    feed = {"path": "/a", "readChangeFeed": "true", "changeStartBatchId": "4", "storeName": "default"}
    assert StateOptions.of(feed) == StateOptions("/a", name="default", changes=(4, None))  # type: ignore[arg-type]
    assert StateOptions.of({"path": "/a", "stateVarName": "seen"}).variable == "seen"
    assert StateOptions.of({"path": "/a", "readRegisteredTimers": "true"}).timers
    assert not StateOptions.of({"path": "/a", "flattenCollectionTypes": "false"}).flat


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({}, "needs the path"),
        ({"path": "/a", "batch": "1"}, "has no option 'batch'"),
        ({"path": "/a", "batchId": "-1"}, "batchId is '-1'"),
        ({"path": "/a", "joinSide": "both"}, "joinSide is 'both'"),
        ({"path": "/a", "joinSide": "left", "stateVarName": "x"}, "cannot be specified together"),
        ({"path": "/a", "readChangeFeed": "true"}, "needs changeStartBatchId"),
        ({"path": "/a", "changeEndBatchId": "1"}, "need readChangeFeed=true"),
        ({"path": "/a", "readChangeFeed": "true", "changeStartBatchId": "1", "batchId": "2"}, "excludes batchId"),
        ({"path": "/a", "readChangeFeed": "yes"}, "it is true or false"),
    ],
)
def test_wrong_options_are_refused(given: dict[str, str], message: str) -> None:
    """The message names the option and its values."""
    with pytest.raises(InvalidQuery, match=message):
        StateOptions.of(given)


def test_adopt_is_a_run_with_two_settings() -> None:
    """The program gets its new checkpoint and the old one; one location cannot be both."""
    found = run_arguments("/old", "/new/", "app.py", ["--workers", "3", "--", "--topic", "a"])
    conf = ["--conf", "spark.binshift.adopt=/old", "--conf", "spark.binshift.checkpoint=/new"]
    assert found == ["app.py", "--checkpoint", "/new", *conf, "--workers", "3", "--", "--topic", "a"]
    with pytest.raises(InvalidSettings, match="choose another location"):
        run_arguments("/old", "/old/", "app.py", [])
