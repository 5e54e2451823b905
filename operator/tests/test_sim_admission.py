"""The made-up API server's admission, against the same table of valid and invalid objects as the real one's."""

from __future__ import annotations

import pytest
from cel import Undefined, compiled
from crd_case import Case
from crd_cases import CREATED, EDITED, changed
from sim_admission import admitted


@pytest.mark.parametrize("case", CREATED, ids=lambda case: case.name)
def test_created(case: Case) -> None:
    """Each application is accepted or rejected as in the table."""
    _, wrong = admitted(changed(case.changes))
    assert bool(wrong) == bool(case.refused), wrong
    assert case.schema or not case.refused or any(case.refused in each for each in wrong)


@pytest.mark.parametrize("case", EDITED, ids=lambda case: case.name)
def test_edited(case: Case) -> None:
    """Each edit is accepted or rejected as in the table."""
    before, wrong = admitted(changed(case.before))
    assert wrong == []
    _, wrong = admitted(changed(case.changes), before)
    assert bool(wrong) == bool(case.refused), wrong
    assert any(case.refused in each for each in wrong) or not case.refused


@pytest.mark.parametrize(
    ("source", "value", "answer"),
    [
        ("self.a == 1 || self.b == 2", {"b": 2}, True),
        ("self.a == 1 && self.b == 2", {"b": 3}, False),
        ("!has(self.a) || size(self.a) > 1", {}, True),
        ("duration(self.a) <= duration('1m30s')", {"a": "90000ms"}, True),
        ("self.a.matches('^x$')", {"a": "x\n"}, False),
        ("['a', 'b'].exists(k, k in self)", {"c": 1}, False),
        ("self.a.all(v, !has(v.b) || v.b != self.c)", {"a": [{}, {"b": 1}], "c": 1}, False),
    ],
)
def test_rule(source: str, value: object, answer: bool) -> None:
    """A rule has the value that the language gives it."""
    assert compiled(source)({"self": value}) is answer


def test_field_that_is_not_there() -> None:
    """A rule that hangs on a field that is not there has no value."""
    with pytest.raises(Undefined):
        compiled("self.a == 1 && self.b == 2")({"self": {"b": 2}})
