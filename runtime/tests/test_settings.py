"""The settings tree: names, types, ranges, and the precedence of sources."""

from __future__ import annotations

import ast
import dataclasses
import inspect

import pytest
from hypothesis import given
from hypothesis import strategies as st

from binshift import settings
from binshift.errors import InvalidSettings
from binshift.settings import Settings, option_of, resolve

NAMES = [field.name for field in dataclasses.fields(Settings)]


def test_defaults_are_valid() -> None:
    """Without any setting the documented defaults apply."""
    found = resolve()
    assert found == Settings()
    assert (found.bins, found.workers, found.strategy, found.batch_size) == (4096, None, "Optimized", 256)
    assert (found.pre_copy, found.latency_target_seconds, found.store_directory) == (True, None, None)


def test_every_setting_is_documented() -> None:
    """Each field is followed by a docstring of at least one sentence, which names its default."""
    body = ast.parse(inspect.getsource(Settings)).body[0]
    assert isinstance(body, ast.ClassDef)
    documented = {}
    for at, after in zip(body.body, body.body[1:], strict=False):
        if isinstance(at, ast.AnnAssign) and isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant):
            documented[ast.unparse(at.target)] = str(after.value.value)
    assert list(documented) == NAMES
    assert [name for name, text in documented.items() if "." not in text] == []
    assert [name for name, text in documented.items() if name != "bins" and "default" not in text] == []


def test_the_nearest_place_wins() -> None:
    """The precedence is: option, keyword, `binshift.` conf, `spark.binshift.` conf, default."""
    conf = {
        "binshift.batchSize": "2",
        "spark.binshift.batchSize": "1",
        "spark.binshift.bins": "8",
        "spark.ui.port": "1",
    }
    assert resolve(conf).batch_size == 2
    assert resolve(conf).bins == 8
    assert resolve(conf, {"batch_size": 3}).batch_size == 3
    assert resolve(conf, {"batch_size": 3}, {"binshift.batchSize": "4"}).batch_size == 4


def test_options_are_read_in_any_case() -> None:
    """As with all Spark options, a setting's name is case-insensitive."""
    assert resolve(options={"BINSHIFT.precopy": "FALSE"}).pre_copy is False
    assert resolve(options={"topic": "binshift", "binshift.strategy": "batched"}).strategy == "Batched"


@given(st.sampled_from(NAMES), st.data())
def test_text_and_value_mean_the_same(name: str, data: st.DataObject) -> None:
    """A value as a keyword and as the text of an option gives the same settings."""
    default = getattr(Settings(), name)
    value: object
    if isinstance(default, bool):
        value = data.draw(st.booleans())
    elif name == "bins":
        value = 1 << data.draw(st.integers(0, 20))
    elif name == "standby_replicas":
        value = data.draw(st.integers(0, 1))
    elif name == "copy_duty":
        value = data.draw(st.floats(0.01, 1.0))
    elif isinstance(default, float) or name in ("max_epoch", "latency_target_seconds"):
        value = data.draw(st.floats(1.0, 1e6))
    elif isinstance(default, int) or name == "workers":
        value = data.draw(st.integers(1 << 20, 1 << 40)) if name.endswith("bytes") else data.draw(st.integers(1, 1000))
    else:
        value = data.draw(st.sampled_from(settings.STRATEGIES))
    by_keyword = resolve(keywords={name: value})
    assert getattr(by_keyword, name) == value
    assert resolve(options={option_of(name): str(value).lower() if value is not True else "true"}) == (
        by_keyword
        if name not in ("store_directory", "adopt", "restore_from")
        else resolve(keywords={name: str(value).lower()})
    )


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("bins", 3000, "power of two, such as 2048 or 4096"),
        ("bins", 0, "at least 1, at most 1048576"),
        ("bins", 64.0, "a whole number"),
        ("bins", True, "a whole number"),
        ("workers", 0, "at least 1"),
        ("batch_size", "many", "a whole number"),
        ("batch_size", None, "a whole number"),
        ("pre_copy", "yes", "true or false"),
        ("pre_copy", 1, "true or false"),
        ("copy_duty", 1.5, "at most 1.0"),
        ("standby_replicas", 2, "at most 1"),
        ("copy_duty", "nan", "a finite number"),
        ("latency_target_seconds", float("inf"), "a finite number"),
        ("strategy", "Magic", "AllAtOnce, Fluid, Batched, Optimized"),
        ("store_directory", "", "a text that is not empty"),
        ("store_directory", 7, "a text that is not empty"),
    ],
)
def test_values_that_do_not_fit_are_refused(name: str, value: object, message: str) -> None:
    """The error names the source, the value and the valid values."""
    with pytest.raises(InvalidSettings) as caught:
        resolve(keywords={name: value})
    text = str(caught.value)
    assert name in text
    assert message in text
    assert repr(value) in text or name == "bins"


@pytest.mark.parametrize(
    ("layers", "message"),
    [
        (
            {"keywords": {"batchsize": 1}},
            "keyword 'batchsize' of writeStream() is not a setting; did you mean 'batch_size'?",
        ),
        (
            {"options": {"binshift.precoppy": "1"}},
            "option 'binshift.precoppy' is not a setting; did you mean 'binshift.preCopy'",
        ),
        (
            {"conf": {"spark.binshift.bin": "1"}},
            "Spark conf 'spark.binshift.bin' is not a setting; did you mean 'spark.binshift.bins'",
        ),
        ({"options": {"binshift.zzz": "1"}}, "settings are: binshift.adopt, binshift.batchSize, binshift.bins"),
    ],
)
def test_unknown_names_are_refused(layers: dict[str, dict[str, str]], message: str) -> None:
    """An unknown setting from any source is an error that suggests a similar name."""
    with pytest.raises(InvalidSettings) as caught:
        resolve(**layers)
    assert message in str(caught.value)


def test_settings_are_checked_when_made_directly() -> None:
    """No settings object can violate its bounds."""
    with pytest.raises(InvalidSettings, match="batch_size is 0"):
        Settings(batch_size=0)
    with pytest.raises(InvalidSettings, match="batch_size is 0"):
        dataclasses.replace(Settings(), batch_size=0)


@pytest.mark.parametrize(
    ("given", "seconds"), [("2s", 2.0), ("500ms", 0.5), ("1.5", 1.5), ("1 min", 60.0), ("1h", 3600.0)]
)
def test_durations_have_units(given: str, seconds: float) -> None:
    """Text can have the units of Spark and Kubernetes; without one it is in seconds."""
    assert resolve({"spark.binshift.maxEpoch": given}).max_epoch == seconds


@pytest.mark.parametrize("given", ["2 days", "s", "1.2.3s", "nan", "-2s"])
def test_wrong_durations_are_rejected(given: str) -> None:
    """The message has the value and what it must be."""
    with pytest.raises(InvalidSettings, match=r"maxEpoch' is '.*'; it must be"):
        resolve({"spark.binshift.maxEpoch": given})
