"""The client of the Kubernetes API server: the one place that knows its paths, verbs and patch types.

Each request has a time limit and is never retried here, because the controller reconciles again anyway. Paths are a table: discovery costs
requests at every start. `Kube` needs nothing of a connection but `Transport`, so tests use an API server in memory.
"""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from http import HTTPStatus
from typing import Any, Final, Protocol, TypeAlias
from urllib.parse import urlencode

from kubernetes.client import ApiClient, Configuration
from kubernetes.client.exceptions import ApiException
from kubernetes.config import ConfigException, load_incluster_config, load_kube_config
from urllib3.exceptions import HTTPError

from binshift_operator.errors import NotLeading, NotThere, Unreachable, error_of
from binshift_operator.model.names import FIELD_MANAGER, GROUP, PLURAL, SNAPSHOT_PLURAL, VERSION

Object: TypeAlias = dict[str, Any]
SECONDS_MAX: Final = (5.0, 30.0)
"""For the connection, and for the response."""
CONNECTIONS_MAX: Final = 64
"""Kept open: the maximum number of worker threads."""
LIST_MAX: Final = 500
"""Objects in a page."""
RETRY_AFTER_MAX: Final = 300.0
BUSY_CHARACTERS_MAX: Final = 500
APPLY: Final = "application/apply-patch+yaml"
MERGE: Final = "application/merge-patch+json"
JSON: Final = "application/json"
REVIEW: Final = "SelfSubjectAccessReview"
VERBS: Final = {
    "create": ("POST", JSON),
    "apply": ("PATCH", APPLY),
    "patch": ("PATCH", MERGE),
    "delete": ("DELETE", JSON),
}
"""Method and content type of each kind of write."""

PATHS: Final = {
    "Pod": ("/api/v1", "pods"),
    "Secret": ("/api/v1", "secrets"),
    "Service": ("/api/v1", "services"),
    "ConfigMap": ("/api/v1", "configmaps"),
    "ServiceAccount": ("/api/v1", "serviceaccounts"),
    "PersistentVolumeClaim": ("/api/v1", "persistentvolumeclaims"),
    "Event": ("/api/v1", "events"),
    "Node": ("/api/v1", "nodes"),
    "Lease": ("/apis/coordination.k8s.io/v1", "leases"),
    REVIEW: ("/apis/authorization.k8s.io/v1", "selfsubjectaccessreviews"),
    "StatefulSet": ("/apis/apps/v1", "statefulsets"),
    "NetworkPolicy": ("/apis/networking.k8s.io/v1", "networkpolicies"),
    "PodDisruptionBudget": ("/apis/policy/v1", "poddisruptionbudgets"),
    "StreamingDataflow": (f"/apis/{GROUP}/{VERSION}", PLURAL),
    "StreamingDataflowSnapshot": (f"/apis/{GROUP}/{VERSION}", SNAPSHOT_PLURAL),
}
"""API root and plural of each kind."""


class Transport(Protocol):
    """A connection to an API server."""

    def __call__(
        self, method: str, path: str, query: Mapping[str, str], body: Object | None, content_type: str
    ) -> tuple[int, bytes]:
        """Status and body of the response.

        Raises:
            Unreachable: there is no response.
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
        transport: the connection.
        on_write: called with verb and kind of each accepted write.
        is_leader: whether this process may write now; another one may have taken the Lease.
        on_request_end: called at the end of each request, successful or not, on the thread that made it.
    """

    def __init__(
        self,
        transport: Transport,
        on_write: Callable[[str, str], None] = lambda verb, kind: None,
        is_leader: Callable[[], bool] = lambda: True,
        on_request_end: Callable[[], None] = lambda: None,
    ) -> None:
        self._transport, self._on_write, self._is_leader = transport, on_write, is_leader
        self._on_request_end = on_request_end

    def require_leadership(self) -> None:
        """Raise `NotLeading` if this process must not write now; each write checks it by itself."""
        if not self._is_leader():
            raise NotLeading("another process of the operator may hold the Lease: this one changes nothing")

    def get(self, kind: str, namespace: str, name: str) -> Object | None:
        """An object; None if it does not exist."""
        status, body = self._request("GET", path_of(kind, namespace, name), {}, None, "")
        return None if status == 404 else _parse(status, body)

    def list(self, kind: str, namespace: str | None, selector: str = "", fields: str = "") -> list[Object]:
        """All objects of a kind that match the label and field selectors; no namespace: of all namespaces."""
        return [each for page in self.pages(kind, namespace, selector, fields) for each in page]

    def pages(self, kind: str, namespace: str | None, selector: str, fields: str) -> Iterator[Sequence[Object]]:
        """The same page by page: large objects are not all in memory at once."""
        given = {"limit": str(LIST_MAX), "labelSelector": selector, "fieldSelector": fields}
        query = {name: value for name, value in given.items() if value}
        while query.get("continue") != "":
            page = _parse(*self._request("GET", path_of(kind, namespace), query, None, ""))
            yield page.get("items") or []
            query["continue"] = (page.get("metadata") or {}).get("continue") or ""

    def may(self, verb: str, kind: str, namespace: str = "") -> bool:
        """Whether the API server grants this process a verb on a kind, in a namespace or else in the whole cluster."""
        root, plural = PATHS[kind]
        right = {"verb": verb, "group": "/".join(root.split("/")[2:-1]), "resource": plural, "namespace": namespace}
        review = {"kind": REVIEW, "apiVersion": "authorization.k8s.io/v1", "spec": {"resourceAttributes": right}}
        status = _parse(*self._request("POST", path_of(REVIEW, None), {}, review, JSON)).get("status") or {}
        return bool(status.get("allowed"))

    def create(self, manifest: Object) -> Object:
        """Create an object; `Changed` if it exists."""
        kind = manifest["kind"]
        return self._write("create", kind, path_of(kind, manifest["metadata"]["namespace"]), manifest)

    def apply(self, manifest: Object, part: str | None = None, *, force: bool = True, dry_run: bool = False) -> Object:
        """Server-side apply; a UID or resource version in the manifest must be that of the object.

        Without ``force``, an object in which other field managers have set other values is left alone (`Changed`). A ``dry_run``
        is validated in full, and stores nothing.
        """
        kind, meta = manifest["kind"], manifest["metadata"]
        query = {"force": str(force).lower()} | ({"dryRun": "All"} if dry_run else {})
        return self._write("apply", kind, path_of(kind, meta["namespace"], meta["name"], part), manifest, query)

    def patch(self, kind: str, namespace: str, name: str, change: Object) -> Object:
        """Merge a change into an object."""
        return self._write("patch", kind, path_of(kind, namespace, name), change)

    def delete(self, kind: str, namespace: str, name: str, uid: str, *, at_once: bool = False) -> None:
        """Delete the object of this UID; no error if it does not exist."""
        options: Object = {"kind": "DeleteOptions", "apiVersion": "v1", "preconditions": {"uid": uid}}
        options |= {"gracePeriodSeconds": 0} if at_once else {}
        with contextlib.suppress(NotThere):
            self._write("delete", kind, path_of(kind, namespace, name), options)

    def _write(self, verb: str, kind: str, path: str, body: Object, options: Mapping[str, str] | None = None) -> Object:
        method, content_type = VERBS[verb]
        query = {**({} if verb == "delete" else {"fieldManager": FIELD_MANAGER}), **(options or {})}
        self.require_leadership()
        found = _parse(*self._request(method, path, query, body, content_type))
        if "dryRun" not in query:
            self._on_write(verb, kind)
        return found

    def _request(
        self, method: str, path: str, query: Mapping[str, str], body: Object | None, content_type: str
    ) -> tuple[int, bytes]:
        try:
            return self._transport(method, path, query, body, content_type)
        finally:
            self._on_request_end()


def _parse(status: int, body: bytes) -> Object:
    try:
        found: Object = json.loads(body)
    except ValueError:
        raise Unreachable(f"the API server answered {status} without JSON") from None
    if status >= 400:
        details = found.get("details") or {}
        message = str(found.get("message") or f"the API server answered {status}")
        raise error_of(status, message, parse_retry_after(details.get("retryAfterSeconds")))
    return found


def parse_retry_after(text: object) -> float:
    """The seconds of a Retry-After, bounded; 0 if there is none, or it is a date.

    >>> parse_retry_after("7"), parse_retry_after(None), parse_retry_after("Fri, 31 Dec 1999 23:59:59 GMT"), parse_retry_after(1e9)
    (7.0, 0.0, 0.0, 300.0)
    """
    found = re.fullmatch(r"[0-9]{1,18}(\.[0-9]+)?", str(text))
    return 0.0 if found is None else min(float(found[0]), RETRY_AFTER_MAX)


class ServerConnection:
    """The connection to a real API server, with the pod's service account or from KUBECONFIG.

    Raises:
        Unreachable: neither is configured.
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
        """See `Transport`."""
        headers = {"Accept": JSON, "User-Agent": FIELD_MANAGER} | (
            {"Content-Type": content_type} if content_type else {}
        )
        where = f"{path}?{urlencode(query)}" if query else path
        prepared = self._api.param_serialize(
            method, where, header_params=headers, body=body, auth_settings=["BearerToken"]
        )
        try:
            answer = self._api.call_api(*prepared, _request_timeout=SECONDS_MAX)
            status, read = int(answer.status), bytes(answer.read() or b"")  # type: ignore[no-untyped-call]
            later = answer.getheader("Retry-After")  # type: ignore[no-untyped-call]
        except ApiException as error:
            raise Unreachable(f"the request to the API server failed: {error.reason}") from error
        except (HTTPError, OSError) as error:
            raise Unreachable(f"the API server does not answer: {error}") from error
        # A JSON response has the delay in its details.
        if later and status >= HTTPStatus.TOO_MANY_REQUESTS and not read.startswith(b"{"):
            text = read.decode(errors="replace")[:BUSY_CHARACTERS_MAX]
            raise Unreachable(f"the API server is busy, it answered {status}: {text}", parse_retry_after(later))
        return status, read
