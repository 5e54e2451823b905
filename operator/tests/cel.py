"""As much of CEL, the language of a definition's rules, as our definition uses: parsed once, evaluated on plain values.

Follows the language where it matters here: a field that is not there is an error, and `&&`, `||` and the macros need no operand whose
value cannot change the answer, not even one that is an error. Times are seconds, maps are dicts.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from typing import Any, TypeAlias

Variables: TypeAlias = Mapping[str, Any]
Expression: TypeAlias = Callable[[Variables], Any]

_TOKEN = re.compile(r"\s*(?:('(?:[^'\\]|\\.)*')|([0-9]+)|([A-Za-z_]\w*)|(&&|\|\||[=!<>]=|[-!<>()\[\].,]))")
_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}
_COMPARED = {
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


class Undefined(Exception):
    """The requested value does not exist."""


@cache
def compiled(source: str) -> Expression:
    """A rule, to be called with its variables.

    >>> compiled("has(self.a) && self.a.all(x, x in [1, 2])")({"self": {"a": [1, 3]}})
    False
    """
    parser = _Parser(source)
    found = parser.either()
    assert parser.place == len(parser.tokens), f"{source}: not understood from {parser.tokens[parser.place :]}"
    return found


class _Parser:
    """Recursive descent; each method reads what binds tighter than the one before."""

    def __init__(self, source: str) -> None:
        self.tokens, place = list[str](), 0
        while source[place:].strip():
            found = _TOKEN.match(source, place)
            assert found is not None, f"{source}: not understood at {place}"
            self.tokens.append(found[0].strip())
            place = found.end()
        self.place = 0

    def take(self, *wanted: str) -> str | None:
        if self.place < len(self.tokens) and self.tokens[self.place] in wanted:
            self.place += 1
            return self.tokens[self.place - 1]
        return None

    def need(self, wanted: str) -> None:
        assert self.take(wanted), f"{wanted} is missing before {self.tokens[self.place :]}"

    def either(self) -> Expression:
        parts = [self.both()]
        while self.take("||"):
            parts.append(self.both())
        return parts[0] if len(parts) == 1 else lambda v: _decided(parts, v, True)

    def both(self) -> Expression:
        parts = [self.compared()]
        while self.take("&&"):
            parts.append(self.compared())
        return parts[0] if len(parts) == 1 else lambda v: _decided(parts, v, False)

    def compared(self) -> Expression:
        left = self.unary()
        sign = self.take(*_COMPARED, "in")
        if sign is None:
            return left
        right = self.unary()
        if sign == "in":
            return lambda v: left(v) in right(v)
        compare = _COMPARED[sign]
        return lambda v: compare(left(v), right(v))

    def unary(self) -> Expression:
        if self.take("!"):
            inner = self.unary()
            return lambda v: not inner(v)
        found = self.primary()
        while self.take("."):
            name = self.tokens[self.place]
            self.place += 1
            found = self.method(found, name) if self.take("(") else _field(found, name)
        return found

    def method(self, of: Expression, name: str) -> Expression:
        first = self.either()
        if name in ("all", "exists"):
            variable = self.tokens[self.place - 1]
            self.need(",")
            test = self.either()
            self.need(")")
            return lambda v: _over(of(v), variable, test, v, name == "exists")
        self.need(")")
        if name == "matches":
            return lambda v: re.search(re2(first(v)), of(v)) is not None
        assert name == "startsWith", f"no method {name}"
        return lambda v: of(v).startswith(first(v))

    def primary(self) -> Expression:
        token = self.tokens[self.place]
        self.place += 1
        if token == "(":
            found = self.either()
            self.need(")")
            return found
        if token == "[":
            items = self.listed("]")
            return lambda v: [item(v) for item in items]
        if token.startswith("'"):
            text = token[1:-1].replace("\\'", "'").replace("\\\\", "\\")
            return lambda v: text
        if token.isdigit():
            return lambda v: int(token)
        if self.take("("):
            (argument,) = self.listed(")")
            return {"has": _has, "size": _size, "duration": _duration}[token](argument)
        return lambda v: v[token]

    def listed(self, end: str) -> list[Expression]:
        found = list[Expression]()
        while not self.take(end):
            found.append(self.either())
            self.take(",")
        return found


def _decided(parts: Iterable[Expression], variables: Variables, by: bool) -> bool:
    failed: Undefined | None = None
    for part in parts:
        try:
            value: object = part(variables)
            if value is by:
                return by
        except Undefined as error:
            failed = error
    if failed is not None:
        raise failed
    return not by


def _over(items: Iterable[Any], variable: str, test: Expression, variables: Variables, by: bool) -> bool:
    tests = [lambda v, item=item: test({**v, variable: item}) for item in items]
    return _decided(tests, variables, by)


def _field(of: Expression, name: str) -> Expression:
    def read(variables: Variables) -> Any:
        found = of(variables)
        if not isinstance(found, Mapping) or name not in found:
            raise Undefined(name)
        return found[name]

    read.parts = (of, name)  # type: ignore[attr-defined]
    return read


def _has(argument: Expression) -> Expression:
    of, name = argument.parts  # type: ignore[attr-defined]
    return lambda v: name in of(v)


def _size(argument: Expression) -> Expression:
    return lambda v: len(argument(v))


def _duration(argument: Expression) -> Expression:
    return lambda v: sum(float(n) * _UNITS[u] for n, u in re.findall(r"([0-9.]+)(ms|s|m|h)", argument(v)))


def re2(pattern: str) -> str:
    r"""A pattern of RE2's as Python's: there the end is the end, and no line's.

    >>> re2("^a$")
    '^a\\Z'
    """
    return pattern.replace("$", r"\Z")
