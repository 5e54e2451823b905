"""Permissions over HTTP: without the right token nothing is changed, and nothing under /v1 is returned."""

from __future__ import annotations

import hmac
from pathlib import Path

import pytest
from control_fakes import ADMIN, DRAIN, TOKENS, FakeService, client

from binshift.control.auth import Permission, TokenCheck, Tokens
from binshift.errors import InvalidSettings

TARGET = {"owner": "", "generation": 1, "workers": [0]}
READS = (
    *("/v1/dataflow", "/v1/workers", "/v1/bins", "/v1/placement", "/v1/epochs"),
    *("/v1/migrations", "/v1/migrations/1"),
)
WRITES = (
    ("PUT", "/v1/target"),
    ("DELETE", "/v1/migrations/1"),
    ("POST", "/v1/stop"),
    ("POST", "/v1/workers/1/drain"),
)
CALLS = (*(("GET", path) for path in READS), *WRITES)
WRONG = (None, "", "wrong", ADMIN[:-1], ADMIN + "x", ADMIN.upper(), "\u00e9")


@pytest.mark.parametrize(("method", "path"), CALLS)
@pytest.mark.parametrize("token", WRONG)
def test_a_wrong_token_is_401(method: str, path: str, token: str | None) -> None:
    """Without one of the driver's tokens, every call is rejected before it reaches the query, and the response has the instructions."""
    service = FakeService()
    headers = {} if token is None else {b"Authorization": f"Bearer {token}".encode()}
    answer = client(service, token=None).request(method, path, headers=headers, json=TARGET)
    assert (answer.status_code, answer.json()["error"]) == (401, "TokenRequired")
    assert answer.headers["www-authenticate"].startswith("Bearer")
    assert (service.writes, service.reads) == ([], 0)


@pytest.mark.parametrize("header", [ADMIN, f"Basic {ADMIN}", f"Token {ADMIN}", f"Bearer{ADMIN}", "Bearer", "Bearer  "])
def test_only_a_bearer_token_counts(header: str) -> None:
    """A token in another scheme is not accepted."""
    service = FakeService()
    assert client(service, token=None).post("/v1/stop", headers={"Authorization": header}).status_code == 401
    assert service.writes == []


@pytest.mark.parametrize(("method", "path"), CALLS)
def test_the_drain_token_opens_the_drain_only(method: str, path: str) -> None:
    """It permits draining a worker and watching a migration; every other call is 403, including other reads."""
    service = FakeService()
    answer = client(service, token=DRAIN).request(method, path, json=TARGET)
    if path.endswith("/drain"):
        assert answer.status_code == 202
    elif (method, path) == ("GET", "/v1/migrations/1"):
        assert answer.status_code == 200
    else:
        assert (answer.status_code, answer.json()["error"]) == (403, "TokenMayOnlyDrain")
        assert (service.writes, service.reads) == ([], 0)


@pytest.mark.parametrize("path", ["/v1/workers/1/drain/", "/v1/workers/1/drain/../../stop"])
def test_the_drain_token_opens_no_similar_paths(path: str) -> None:
    """Any path that is not exactly a drain needs the admin token."""
    service = FakeService()
    assert client(service, token=DRAIN).post(path).status_code in {403, 404, 405}
    assert [write for write in service.writes if write[0] != "drain"] == []


@pytest.mark.parametrize("token", [None, "anything"])
@pytest.mark.parametrize(("method", "path"), CALLS)
def test_without_a_configured_token_all_is_refused(method: str, path: str, token: str | None) -> None:
    """A driver without tokens rejects every call under /v1, and the error has the settings for a token."""
    service = FakeService()
    answer = client(service, token=token, tokens=Tokens()).request(method, path, json=TARGET)
    assert (answer.status_code, answer.json()["error"]) == (403, "NoTokenConfigured")
    assert "BINSHIFT_TOKEN" in answer.json()["message"]
    assert (service.writes, service.reads) == ([], 0)


@pytest.mark.parametrize("path", ["/healthz", "/readyz", "/metrics", "/openapi.json"])
def test_health_is_open(path: str) -> None:
    """Health needs no token and is read-only."""
    api = client(FakeService(), token=None)
    assert api.get(path).status_code == 200
    assert api.post(path).status_code == 401


def test_a_large_body_is_not_read_for_a_stranger() -> None:
    """A caller without permission to write is rejected, whatever the body is."""
    answer = client(FakeService(), token=None).put("/v1/target", content=b" " * 10_000_000)
    assert answer.status_code == 401


def test_tokens_are_compared_in_constant_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every check compares digests of both tokens, only with `hmac.compare_digest`, for any input."""
    compared: list[tuple[int, int]] = []

    def compare(left: bytes, right: bytes) -> bool:
        compared.append((len(left), len(right)))
        return real(left, right)

    real = hmac.compare_digest
    monkeypatch.setattr(hmac, "compare_digest", compare)
    for given in (None, "", "x", ADMIN, DRAIN, "x" * 1000):
        compared.clear()
        TOKENS.check(given, Permission.ADMIN)
        assert compared == [(32, 32), (32, 32)]
    monkeypatch.setattr(hmac, "compare_digest", lambda left, right: True)
    assert TOKENS.check("nonsense", Permission.ADMIN) is TokenCheck.ALLOWED


@pytest.mark.parametrize(
    ("tokens", "given", "permission", "verdict"),
    [
        (Tokens(drain=DRAIN), DRAIN, Permission.DRAIN, TokenCheck.ALLOWED),
        (Tokens(drain=DRAIN), DRAIN, Permission.ADMIN, TokenCheck.NONE_CONFIGURED),
        (Tokens(drain=DRAIN), "x", Permission.DRAIN, TokenCheck.UNKNOWN),
        (Tokens(ADMIN), ADMIN, Permission.DRAIN, TokenCheck.ALLOWED),
        (Tokens(ADMIN), "x", Permission.DRAIN, TokenCheck.UNKNOWN),
        (Tokens(), None, Permission.DRAIN, TokenCheck.NONE_CONFIGURED),
        (Tokens(), "", Permission.ADMIN, TokenCheck.NONE_CONFIGURED),
    ],
)
def test_a_missing_token_matches_nothing(
    tokens: Tokens, given: str | None, permission: Permission, verdict: TokenCheck
) -> None:
    """A token that is not configured matches no caller, instead of every caller."""
    assert tokens.check(given, permission) is verdict


def test_tokens_come_from_the_environment_or_from_files(tmp_path: Path) -> None:
    """A variable holds the token, or names a file that does; a newline at its end is ignored."""
    file = tmp_path / "token"
    file.write_text(DRAIN + "\n")
    found = Tokens.from_environment({"BINSHIFT_TOKEN": ADMIN, "BINSHIFT_DRAIN_TOKEN_FILE": str(file)})
    assert (found.admin, found.drain) == (ADMIN, DRAIN)
    assert Tokens.from_environment({}) == Tokens()
    assert ADMIN not in repr(found)


@pytest.mark.parametrize(
    ("environment", "message"),
    [
        ({"BINSHIFT_TOKEN": ""}, "BINSHIFT_TOKEN must be"),
        ({"BINSHIFT_TOKEN": "has space"}, "BINSHIFT_TOKEN must be"),
        ({"BINSHIFT_DRAIN_TOKEN": "x" * 5000}, "BINSHIFT_DRAIN_TOKEN must be"),
        ({"BINSHIFT_TOKEN": "a", "BINSHIFT_DRAIN_TOKEN": "a"}, "the same"),
        ({"BINSHIFT_TOKEN": "a", "BINSHIFT_TOKEN_FILE": "/b"}, "both BINSHIFT_TOKEN and"),
        ({"BINSHIFT_TOKEN_FILE": "/nowhere/at/all"}, "/nowhere/at/all, which cannot be read"),
    ],
)
def test_tokens_that_do_not_fit_are_refused(environment: dict[str, str], message: str) -> None:
    """A token that would permit nothing, or too much, is an error at start that names its variable."""
    with pytest.raises(InvalidSettings, match=message) as refused:
        Tokens.from_environment(environment)
    assert "has space" not in str(refused.value)
