"""Reads the dataflows that this operator serves: all, or the ones that match its label selector."""

from __future__ import annotations

from binshift_operator.kube import Kube, Object
from binshift_operator.model.names import KIND


def find_served(kube: Kube, selector: str, namespace: str, name: str) -> Object | None:
    """A dataflow, if it exists and the API server finds that it matches the selector; empty selector: any.

    Raises:
        OperatorError: the API server does not answer, or rejects the request.
    """
    if not selector:
        return kube.get(KIND, namespace, name)
    return next(iter(kube.list(KIND, namespace, selector, f"metadata.name={name}")), None)
