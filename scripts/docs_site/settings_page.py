"""The page of settings: those of a query with defaults, limits and reasons, and the Spark conf that binshift needs."""

from __future__ import annotations

import ast
import math
from dataclasses import Field, fields
from itertools import pairwise
from pathlib import Path
from typing import Any

from docs_site.markdown import code, table

from binshift import settings
from binshift.spark import conf


def page() -> str:
    """The page."""
    reasons, kinds = _docstrings(), _annotations()
    each = "\n".join(_setting(field, kinds[field.name], reasons[field.name]) for field in fields(settings.Settings))
    spark = [[code(key), code(value), why] for key, (value, why) in (conf.STATIC | conf.RECOMMENDED).items()]
    other = [
        [code(settings.ENABLED_CONF), _after("ENABLED_CONF")],
        [code(settings.CHECKPOINT_CONF), _after("CHECKPOINT_CONF")],
    ]
    return f"""# Settings

Generated from `runtime/binshift/settings.py` and `runtime/binshift/spark/conf.py`.

## Of a query

A setting is a keyword of `binshift.writeStream`, an option of the writer, or Spark conf with the option's name (also with `spark.` before
it, as `spark-submit` requires). The option wins over the keyword, and the keyword over the conf. Unknown names are rejected.

{each}
## Other Spark conf of binshift

{table(["key", "meaning"], other)}
## Spark conf that binshift needs

`binshift run` and the operator set these. In any other driver, set them before the session is created: `binshift.spark.conf.required()`.

{table(["key", "value", "reason"], spark)}"""


def _setting(field: Field[Any], kind: str, reason: str) -> str:
    facts = filter(
        None, [f"`{settings.option_of(field.name)}`", f"`{kind}`", _limits(field), f"default {_default(field)}"]
    )
    return f"### {field.name}\n\n{', '.join(facts)}\n\n{' '.join(reason.split()).replace('``', '`')}\n"


def _tree() -> ast.Module:
    return ast.parse(Path(str(settings.__file__)).read_text(encoding="utf-8"))


def _class() -> ast.ClassDef:
    (found,) = (each for each in _tree().body if isinstance(each, ast.ClassDef) and each.name == "Settings")
    return found


def _strings(body: list[ast.stmt]) -> dict[str, str]:
    """The docstring below each name."""
    found = {}
    for before, after in pairwise(body):
        match before, after:
            case ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(value=ast.Constant(value=str(text))):
                found[name] = text
    return found


def _docstrings() -> dict[str, str]:
    return _strings(_class().body)


def _after(name: str) -> str:
    return _strings(_tree().body)[name]


def _annotations() -> dict[str, str]:
    typed = (each for each in _class().body if isinstance(each, ast.AnnAssign))
    return {each.target.id: ast.unparse(each.annotation) for each in typed if isinstance(each.target, ast.Name)}


def _default(field: Field[Any]) -> str:
    return "none" if field.default is None else code(field.default)


def _limits(field: Field[Any]) -> str:
    bounds = field.metadata["bounds"]
    if bounds.choices:
        return ", ".join(code(each) for each in bounds.choices)
    least = [] if math.isinf(bounds.least) else [f"at least {bounds.least:,}"]
    most = [] if math.isinf(bounds.most) else [f"at most {bounds.most:,}"]
    return ", ".join(least + most)
