"""An API server made up in memory: as much of it as the operator relies on.

UIDs, resource versions and generations, preconditions, create-once, server-side apply of one manager (what is no longer applied is
gone), status as a part of its own, deletion that takes its time for pods, and owners whose children go with them.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Mapping
from typing import Any

from sim_objects import selected, without_empty

from binshift_operator.errors import Unreachable
from binshift_operator.kube import PATHS, REVIEW, path_of

Object = dict[str, Any]
KINDS = {(root, plural): kind for kind, (root, plural) in PATHS.items()}
OWN_PARTS = ("spec", "data", "type", "automountServiceAccountToken")


class Crash(BaseException):
    """The operator's process ends here."""


class SimServer:
    """The server; call it as `binshift_operator.kube.Requests`.

    Attributes:
        webhook: changes whatever is stored, of a kind, as a mutating webhook does.
        admit_status: changes a status that is applied to a dataflow, and returns the message by which it is rejected, or an empty one.
        refusing: parts of paths, and the status and message that writes there are answered with.
        unreadable: the ends of paths whose reads are forbidden.
        requests: all requests, also rejected writes; the reader clears it.
        changed: called with the kind of every object that is created, changed or removed.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self.clock = clock
        self.objects: dict[tuple[str, str, str], Object] = {}
        self.writes: list[str] = []
        self.crash_after: int | None = None
        self.version, self.down = 0, False
        self.deleting: Callable[[Object], None] = lambda found: None
        self.webhook: Callable[[str, Object], None] = lambda kind, found: None
        self.admit_status: Callable[[Object], str] = lambda status: ""
        self.refusing, self.unreadable = dict[str, tuple[int, str]](), set[str]()
        self.requests: list[str] = []
        self.changed: Callable[[str], None] = lambda kind: None

    # ------------------------------------------------------------------------------------------------- for the operator

    def __call__(
        self, method: str, path: str, query: Mapping[str, str], body: Object | None, content_type: str
    ) -> tuple[int, bytes]:
        """See `binshift_operator.kube.Requests`."""
        if self.down:
            raise Unreachable("the API server is away")
        self.requests.append(f"{method} {path}")
        if method == "GET" and path.endswith(tuple(self.unreadable)):
            return 403, json.dumps({"message": "forbidden"}).encode()
        for part, (status, message) in self.refusing.items():
            if method != "GET" and part in path:
                return status, json.dumps({"message": message}).encode()
        if query.get("dryRun"):
            return 200, b"{}"
        if path == path_of(REVIEW, None):
            return 201, json.dumps({"status": {"allowed": self._allows((body or {})["spec"])}}).encode()
        status, answer = self._answer(method, path, dict(query), body, content_type)
        if method != "GET" and status < 400:
            self.count(f"{method} {path}")
        return status, json.dumps(answer).encode()

    def _allows(self, spec: Object) -> bool:
        """Whether a right is granted; without "watch" in ``unreadable``, all can be watched."""
        right = spec["resourceAttributes"]
        (root,) = {root for root, plural in KINDS if plural == right["resource"]}
        assert root in (f"/apis/{right['group']}/v1", f"/apis/{right['group']}/v1alpha1", f"/api{right['group']}/v1")
        where = f"/{right['namespace']}/{right['resource']}" if right["namespace"] else f"/{right['resource']}"
        return right["verb"] not in self.unreadable and not where.endswith(tuple(self.unreadable))

    def count(self, write: str) -> None:
        """A write has happened; the operator may end right after it."""
        self.writes.append(write)
        if self.crash_after is not None and len(self.writes) >= self.crash_after:
            self.crash_after = None
            raise Crash(write)

    def _answer(
        self, method: str, path: str, query: dict[str, str], body: Object | None, content_type: str
    ) -> tuple[int, Any]:
        kind, namespace, name, part = located(path)
        if name is None:
            if method == "POST":
                assert body is not None
                return self._create(kind, namespace or "", copy.deepcopy(body))
            found_all = self.listed(kind, namespace, query.get("labelSelector", ""))
            return 200, {"items": [each for each in found_all if selected(each, query.get("fieldSelector", ""))]}
        key = (kind, namespace or "", name)
        found = self.objects.get(key)
        if method == "GET":
            return (404, {"message": "not found"}) if found is None else (200, found)  # it is written as JSON at once
        assert body is not None
        body = copy.deepcopy(body)
        if method == "DELETE":
            return self._delete(key, found, body)
        if "apply" in content_type:
            return self._apply(key, found, body, part, query.get("force") == "true")
        if found is None:
            return 404, {"message": "not found"}
        return self._merge(found, body)

    def _create(self, kind: str, namespace: str, body: Object) -> tuple[int, Any]:
        key = (kind, namespace, body["metadata"]["name"])
        if key in self.objects:
            return 409, {"message": f"{kind} {key[2]} exists"}
        self.put(kind, body)
        return 201, self.objects[key]

    def _apply(
        self, key: tuple[str, str, str], found: Object | None, body: Object, part: str | None, force: bool
    ) -> tuple[int, Any]:
        meta = body["metadata"]
        if found is None:
            if part is not None or meta.get("uid"):
                return (404 if part else 409), {"message": "not found"}
            self.put(key[0], body)
            return 201, self.objects[key]
        wanted = (meta.get("uid"), meta.get("resourceVersion"))
        there = (found["metadata"]["uid"], found["metadata"]["resourceVersion"])
        if any(want and want != have for want, have in zip(wanted, there, strict=True)):
            return 409, {"message": "it has changed"}
        if not force:
            return 409, {"message": "others have written it"}
        before = copy.deepcopy(found)
        if part == "status":
            if key[0] == "StreamingDataflow" and (problem := self.admit_status(body["status"])):
                return 500, {"message": problem}
            found["status"] = body["status"]
        else:
            found.update({name: without_empty(body[name]) for name in OWN_PARTS if name in body})
            for name in ("labels", "annotations", "ownerReferences"):
                found["metadata"][name] = meta.get(name, {})
            self.webhook(key[0], found)
            if found.get("spec") != before.get("spec"):
                found["metadata"]["generation"] += 1
        return 200, (self._touched(found) if found != before else found)

    def _merge(self, found: Object, body: Object) -> tuple[int, Any]:
        version = (body.pop("metadata", None) or {}).get("resourceVersion")
        if version and version != found["metadata"]["resourceVersion"]:
            return 409, {"message": "it has changed"}
        spec = copy.deepcopy(found.get("spec"))
        for name, value in body.items():
            found[name] = {**found[name], **value} if isinstance(found.get(name), dict) else value
        found["metadata"]["generation"] += found.get("spec") != spec
        return 200, self._touched(found)

    def _delete(self, key: tuple[str, str, str], found: Object | None, body: Object) -> tuple[int, Any]:
        if found is None:
            return 404, {"message": "not found"}
        uid = (body.get("preconditions") or {}).get("uid")
        if uid and uid != found["metadata"]["uid"]:
            return 409, {"message": "it is another one"}
        self.deleting(found)
        self.remove(key, at_once=body.get("gracePeriodSeconds") == 0)
        return 200, {}

    # ---------------------------------------------------------------------------------------------------- for the others

    def put(self, kind: str, body: Object) -> Object:
        """Store a new object, as the server does."""
        self.version += 1
        meta = body["metadata"]
        meta.update({"uid": f"uid-{self.version}", "resourceVersion": str(self.version), "generation": 1})
        assert not meta.get("finalizers"), "no finalizer can delay a deletion"
        if "spec" in body and kind != "StreamingDataflow":
            body["spec"] = without_empty(body["spec"])
        self.webhook(kind, body)
        self.objects[(kind, meta["namespace"], meta["name"])] = body
        self.changed(kind)
        return body

    def edit(self, kind: str, namespace: str, name: str, spec: Mapping[str, Any]) -> None:
        """A user merges this into a spec."""
        found = self.objects[(kind, namespace, name)]
        before = copy.deepcopy(found["spec"])
        found["spec"].update(spec)
        if found["spec"] != before:
            found["metadata"]["generation"] += 1
            self._touched(found)

    def remove(self, key: tuple[str, str, str], *, at_once: bool = False) -> None:
        """Delete: pods end first, unless at once; what is owned goes, too."""
        found = self.objects[key]
        if key[0] == "Pod" and not at_once:
            if "deletionTimestamp" not in found["metadata"]:
                grace = found["spec"]["terminationGracePeriodSeconds"]
                found["metadata"] |= {
                    "deletionTimestamp": stamp(self.clock() + grace),
                    "deletionGracePeriodSeconds": grace,
                }
                self._touched(found)
            return
        del self.objects[key]
        self.changed(key[0])
        uid = found["metadata"]["uid"]
        for other, owned in list(self.objects.items()):
            if any(owner["uid"] == uid for owner in owned["metadata"].get("ownerReferences") or ()):
                self.remove(other)

    def complain(self, owner: Object, why: str) -> None:
        """An object's controller records a warning about it."""
        uid, namespace = owner["metadata"]["uid"], owner["metadata"]["namespace"]
        meta = {"name": f"{uid}.failed", "namespace": namespace, "ownerReferences": [{"uid": uid}]}
        event = {"type": "Warning", "reason": "FailedCreate", "message": why, "lastTimestamp": stamp(self.clock())}
        self.put("Event", {"kind": "Event", "metadata": meta, "involvedObject": {"uid": uid}, **event})

    def listed(self, kind: str, namespace: str | None, selector: str = "") -> list[Object]:
        """Copies of the objects of a kind."""
        wanted = dict(pair.split("=") for pair in selector.split(",") if pair)
        return [
            copy.deepcopy(found)
            for (k, n, _), found in sorted(self.objects.items())
            if k == kind
            and namespace in (None, n)
            and wanted.items() <= (found["metadata"].get("labels") or {}).items()
        ]

    def _touched(self, found: Object) -> Object:
        self.version += 1
        found["metadata"]["resourceVersion"] = str(self.version)
        self.changed(found["kind"])
        return found


def located(path: str) -> tuple[str, str | None, str | None, str | None]:
    """Kind, namespace, name and part of a path."""
    for (root, plural), kind in KINDS.items():
        if path == f"{root}/{plural}":
            return kind, None, None, None
        if not path.startswith(f"{root}/namespaces/"):
            continue
        namespace, resource, *rest = path.removeprefix(f"{root}/namespaces/").split("/")
        if resource == plural:
            return kind, namespace, rest[0] if rest else None, rest[1] if len(rest) > 1 else None
    raise AssertionError(f"unexpected request for {path}")


def stamp(seconds: float) -> str:
    """A point in time as the server writes it."""
    from binshift_operator.status_codec import format_time

    return format_time(seconds)
