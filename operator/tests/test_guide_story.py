"""The story that runs the guides (`e2e/test_guides.py`) deletes only its own objects: no other clusters, pods, claims or folders."""

from __future__ import annotations

import importlib.util
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
from guides import ROOT

OURS, THEIRS = SimpleNamespace(own=True), SimpleNamespace(own=False)


@pytest.fixture
def story(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The story's module, with `kind` installed and without permission to use another cluster."""
    monkeypatch.syspath_prepend(str(ROOT / "e2e"))
    spec = importlib.util.spec_from_file_location("guides_story", ROOT / "e2e" / "test_guides.py")
    assert spec is not None
    assert spec.loader is not None
    made = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made)
    monkeypatch.setattr(made.shutil, "which", lambda name: f"/usr/bin/{name}")
    monkeypatch.delenv("BINSHIFT_E2E_GUIDES", raising=False)
    return made


def test_other_peoples_clusters_are_spared(story: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    """A cluster of KUBECONFIG is used only with explicit permission."""
    assert story.spared(OURS) == ""
    assert "BINSHIFT_E2E_GUIDES" in story.spared(THEIRS)
    monkeypatch.setenv("BINSHIFT_E2E_GUIDES", "1")
    assert story.spared(THEIRS) == ""
    monkeypatch.setattr(story.shutil, "which", lambda name: None)
    assert "kind" in story.spared(THEIRS)


def test_what_is_deleted_is_named(story: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only objects named minimal are deleted, and a folder of this machine only if the node is ours."""
    commands: list[tuple[str, ...]] = []
    folders: list[Any] = []

    def kube(*arguments: str, **_: Any) -> str:
        commands.append(arguments)
        return ""

    monkeypatch.setattr(story.shutil, "rmtree", lambda folder, **_: folders.append(folder))
    story.leave_nothing(kube, THEIRS)
    assert folders == []
    assert all("minimal" in arguments[2] and "--all" not in arguments for arguments in commands)
    assert len(commands) == 4
    story.leave_nothing(kube, OURS)
    assert folders == [story.VOLUME]
