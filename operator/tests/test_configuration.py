"""The configuration from the environment, and the errors for invalid variables."""

from __future__ import annotations

import pytest

from binshift_operator.configuration import Configuration
from binshift_operator.errors import InvalidConfiguration


def test_configuration_from_the_environment() -> None:
    """Variables are read, limits by their names."""
    found = Configuration.from_environment({"BINSHIFT_NAMESPACES": "a, b", "BINSHIFT_REGISTRATION_WAIT_SECONDS": "7"})
    assert found.namespaces == ("a", "b")
    assert found.timeouts.registration_wait_seconds == 7.0
    assert Configuration.from_environment({}) == Configuration()


@pytest.mark.parametrize(
    "wrong", [{"BINSHIFT_WORKERS": "many"}, {"BINSHIFT_LOG_LEVEL": "loud"}, {"BINSHIFT_HTTP_PORT": "-1"}]
)
def test_wrong_configuration_is_named(wrong: dict[str, str]) -> None:
    """A variable that does not fit is named in the error."""
    with pytest.raises(InvalidConfiguration, match=next(iter(wrong))):
        Configuration.from_environment(wrong)
