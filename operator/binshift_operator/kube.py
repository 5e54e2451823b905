"""Speaks to the Kubernetes API server: the one place that knows its paths, verbs and kinds of patches.

One request at a time, each with a time limit; nothing is tried again here, as whoever looks does so anyway. `Requests` is all
it needs of a connection, so that it is tested with an API server made up in memory.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from http import HTTPStatus
from typing import Any, Final, Protocol, TypeAlias
from urllib.parse import urlencode

from kubernetes.client import ApiClient, Configuration
from kubernetes.client.exceptions import ApiException
from kubernetes.config import ConfigException, load_incluster_config, load_kube_config
from urllib3.exceptions import HTTPError

from binshift_operator.errors import NotLeading, Unreachable, refused
from binshift_operator.model.names import FIELD_MANAGER, GROUP, PLURAL, VERSION

Object: TypeAlias = dict[str, Any]
SECONDS_MAX: Final = (5.0, 30.0)
"""For the connection, and for the answer."""
CONNECTIONS_MAX: Final = 64
"""Kept open: as many as there may be threads that look."""
LIST_MAX: Final = 500
"""Objects a page."""
RETRY_AFTER_MAX: Final = 300.0
BUSY_CHARACTERS_MAX: Final = 500
APPLY: Final = "application/apply-patch+yaml"
MERGE: Final = "application/merge-patch+json"

PATHS: Final = {
    "Pod": ("/api/v1", "pods"),
    "Secret": ("/api/v1", "secrets"),
    "Service": ("/api/v1", "services"),
    "ConfigMap": ("/api/v1", "configmaps"),
    "ServiceAccount": ("/api/v1", "serviceaccounts"),
    "PersistentVolumeClaim": ("/api/v1", "persistentvolumeclaims"),
    "Event": ("/api/v1", "events"),
    "Lease": ("/apis/coordination.k8s.io/v1", "leases"),
    "StatefulSet": ("/apis/apps/v1", "statefulsets"),
    "NetworkPolicy": ("/apis/networking.k8s.io/v1", "networkpolicies"),
    "PodDisruptionBudget": ("/apis/policy/v1", "poddisruptionbudgets"),
    "StreamingDataflow": (f"/apis/{GROUP}/{VERSION}", PLURAL),
}
"""Where the objects of a kind are."""


class Transport(Protocol):
    """A connection to an API server."""

    def __call__(
        self, method: str, path: str, query: Mapping[str, str], body: Object | None, content_type: str
    ) -> tuple[int, bytes]:
        """Status and body of the answer.

        Raises:
            Unreachable: there is none.
        """


def path_of(kind: str, namespace: str | None, name: str | None = None, part: str | None = None) -> str:
    """The path of an object or a collection.

    >>> path_of("Pod", "ns", "a"), path_of("StatefulSet", None)
    ('/api/v1/namespaces/ns/pods/a', '/apis/apps/v1/statefulsets')
    """
    root, plural = PATHS[kind]
    where = f"{root}/{plural}" if namespace is None else f"{root}/namespaces/{namespace}/{plural}"
    return "/".join(filter(None, [where, name, part]))


class Kube:
    """The API server. Each method raises the errors of `binshift_operator.errors`.

    Args:
        requests: the connection.
        wrote: is told of each write that was accepted, with its verb and kind.
        leading: whether this process may write now; another one may have taken its place.
    """

    def __init__(
        self,
        requests: Transport,
        wrote: Callable[[str, str], None] = lambda verb, kind: None,
        leading: Callable[[], bool] = lambda: True,
    ) -> None:
        self._requests, self._wrote, self._leading = requests, wrote, leading

    def require_leadership(self) -> None:
        """Raises `NotLeading` if this process may change nothing now; each write asks by itself."""
        if not self._leading():
            raise NotLeading("another process of the operator may hold the Lease: this one changes nothing")

    def get(self, kind: str, namespace: str, name: str) -> Object | None:
        """An object; None if it is not there."""
        status, body = self._requests("GET", path_of(kind, namespace, name), {}, None, "")
        return None if status == 404 else _object(status, body)

    def list(self, kind: str, namespace: str | None, selector: str = "", fields: str = "") -> list[Object]:
        """All objects of a kind, of all namespaces if none is named, page by page; ``fields`` selects, too."""
        found: list[Object] = []
        given = {"labelSelector": selector, "fieldSelector": fields}
        query = {"limit": str(LIST_MAX)} | {name: value for name, value in given.items() if value}
        while True:
            page = _object(*self._requests("GET", path_of(kind, namespace), query, None, ""))
            found += page.get("items") or []
            following = (page.get("metadata") or {}).get("continue")
            if not following:
                return found
            query = query | {"continue": following}

    def create(self, manifest: Object) -> Object:
        """Create an object; `Changed` if it exists."""
        kind, meta = manifest["kind"], manifest["metadata"]
        query = {"fieldManager": FIELD_MANAGER}
        self.require_leadership()
        answer = self._requests("POST", path_of(kind, meta["namespace"]), query, manifest, "application/json")
        return self._written("create", kind, answer)

    def apply(self, manifest: Object, part: str | None = None, *, force: bool = True, dry_run: bool = False) -> Object:
        """Server-side apply; a UID or resource version in the manifest must be that of the object.

        Without ``force``, an object that others have written with other values is left alone (`Changed`). A ``dry_run`` is
        judged in full, and stores nothing.
        """
        kind, meta = manifest["kind"], manifest["metadata"]
        path = path_of(kind, meta["namespace"], meta["name"], part)
        query = {"fieldManager": FIELD_MANAGER, "force": str(force).lower()} | ({"dryRun": "All"} if dry_run else {})
        self.require_leadership()
        answer = self._requests("PATCH", path, query, manifest, APPLY)
        return _object(*answer) if dry_run else self._written("apply", kind, answer)

    def patch(self, kind: str, namespace: str, name: str, change: Object) -> Object:
        """Merge a change into an object."""
        query = {"fieldManager": FIELD_MANAGER}
        self.require_leadership()
        answer = self._requests("PATCH", path_of(kind, namespace, name), query, change, MERGE)
        return self._written("patch", kind, answer)

    def delete(self, kind: str, namespace: str, name: str, uid: str, *, at_once: bool = False) -> None:
        """Delete an object, if it is still the one of this UID; one that is gone is as good."""
        body: Object = {"kind": "DeleteOptions", "apiVersion": "v1", "preconditions": {"uid": uid}}
        if at_once:
            body["gracePeriodSeconds"] = 0
        self.require_leadership()
        status, answer = self._requests("DELETE", path_of(kind, namespace, name), {}, body, "application/json")
        if status != 404:
            self._written("delete", kind, (status, answer))

    def _written(self, verb: str, kind: str, answer: tuple[int, bytes]) -> Object:
        found = _object(*answer)
        self._wrote(verb, kind)
        return found


def _object(status: int, body: bytes) -> Object:
    try:
        found: Object = json.loads(body)
    except ValueError:
        raise Unreachable(f"the API server answered {status}, and no JSON") from None
    if status >= 400:
        details = found.get("details") or {}
        message = str(found.get("message") or f"the API server answered {status}")
        raise refused(status, message, parse_retry_after(details.get("retryAfterSeconds")))
    return found


def parse_retry_after(text: object) -> float:
    """What an answer says of when to ask again: seconds, bounded; 0 if it says nothing, or gives a date.

    >>> parse_retry_after("7"), parse_retry_after(None), parse_retry_after("Fri, 31 Dec 1999 23:59:59 GMT"), parse_retry_after(1e9)
    (7.0, 0.0, 0.0, 300.0)
    """
    found = re.fullmatch(r"[0-9]{1,18}(\.[0-9]+)?", str(text))
    return 0.0 if found is None else min(float(found[0]), RETRY_AFTER_MAX)


class ServerConnection:
    """The connection to a real API server, as the pod's service account or as KUBECONFIG says.

    Raises:
        Unreachable: neither tells where one is.
    """

    def __init__(self) -> None:
        configuration = Configuration()
        try:
            load_incluster_config(client_configuration=configuration)  # type: ignore[no-untyped-call]
        except ConfigException:
            try:
                load_kube_config(client_configuration=configuration)  # type: ignore[no-untyped-call]
            except ConfigException as neither:
                raise Unreachable(f"no API server is known: {neither}") from neither
        configuration.retries = False
        configuration.connection_pool_maxsize = CONNECTIONS_MAX
        self._api = ApiClient(configuration)

    def __call__(
        self, method: str, path: str, query: Mapping[str, str], body: Object | None, content_type: str
    ) -> tuple[int, bytes]:
        """See `Requests`."""
        headers = {"Accept": "application/json", "User-Agent": FIELD_MANAGER}
        if content_type:
            headers["Content-Type"] = content_type
        where = f"{path}?{urlencode(query)}" if query else path
        prepared = self._api.param_serialize(
            method, where, header_params=headers, body=body, auth_settings=["BearerToken"]
        )
        try:
            answer = self._api.call_api(*prepared, _request_timeout=SECONDS_MAX)
            status, read = int(answer.status), bytes(answer.read() or b"")  # type: ignore[no-untyped-call]
            later = answer.getheader("Retry-After")  # type: ignore[no-untyped-call]
        except ApiException as wrong:
            raise Unreachable(f"the API server cannot be spoken to: {wrong.reason}") from wrong
        except (HTTPError, OSError) as gone:
            raise Unreachable(f"the API server does not answer: {gone}") from gone
        if (
            later and status >= HTTPStatus.TOO_MANY_REQUESTS and not read.startswith(b"{")
        ):  # with JSON, that says so itself
            said = read.decode(errors="replace")[:BUSY_CHARACTERS_MAX]
            raise Unreachable(f"the API server is busy, it answered {status}: {said}", parse_retry_after(later))
        return status, read
