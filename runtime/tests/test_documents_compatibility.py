"""docs/compatibility.md states the versions that the code has."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

import binshift
from binshift.log.records.envelope import FORMAT_VERSION, FORMATS_READ

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "compatibility.md").read_text(encoding="utf-8")
ROWS = dict(reversed(re.findall(r"^\| ([^|]+?) \| ([\w., ]+?) \|", PAGE, re.MULTILINE)))
PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
CHART, CRD = (
    yaml.safe_load((ROOT / name).read_text(encoding="utf-8"))
    for name in ("charts/binshift/Chart.yaml", "crds/streamingdataflows.yaml")
)


def _pythons() -> str:
    found = re.findall(r"Python :: (3\.\d+)", "\n".join(PROJECT["classifiers"]))
    assert PROJECT["requires-python"] == f">={found[0]},<3.{int(found[-1][2:]) + 1}"
    return ", ".join(found)


def _spark() -> str:
    (found,) = (each for each in PROJECT["optional-dependencies"]["runtime"] if each.startswith("pyspark"))
    return re.sub(r"pyspark>=([\d.]+),<.*", r"\1", found)


ACTUAL = {
    "Python package": binshift.__version__,
    "chart and its default image tag": CHART["appVersion"],
    "CRD": CRD["metadata"]["annotations"]["binshift.dev/version"],
    "CRD's API version": next(each["name"] for each in CRD["spec"]["versions"] if each["storage"]),
    "log format, written": str(FORMAT_VERSION),
    "log formats, read": ", ".join(map(str, FORMATS_READ)),
    "Python": _pythons(),
    "PySpark": _spark(),
    "Kubernetes": CHART["kubeVersion"].removeprefix(">=").removesuffix(".0-0") + " or newer",
}


@pytest.mark.parametrize("what", ACTUAL)
def test_version_is_the_actual_one(what: str) -> None:
    """Each version in the tables is that of the code, the chart, the CRD or pyproject.toml."""
    assert ROWS[what] == ACTUAL[what]


def test_old_formats_stay_readable() -> None:
    """Every log format that a version had written is still read, or the page no longer promises it."""
    folders = (ROOT / "runtime" / "tests" / "data").glob("checkpoint-*")
    assert [each.name for each in folders if each.name.removeprefix("checkpoint-") not in PAGE] == []
