"""Records and other JSON files: exact round trips, every alteration noticed, foreign versions distinguished from damage."""

from __future__ import annotations

import base64
import json
import random
import zlib

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from log_worlds import DictStorage, World

from binshift.errors import ForeignLog, InvalidSettings, LogDamaged, StateTooLarge
from binshift.invariants import InvariantViolated
from binshift.log.index import manifests
from binshift.log.records import binsets, commits, envelope
from binshift.log.records.commits import CommitRecord, decode_record, encode_record
from binshift.log.records.envelope import digest, named_digest
from binshift.log.storage import layout
from binshift.model import BINS_MAX, BinSet, Epoch, Term, Worker

NAME = layout.record_name(Epoch(2))


def some_record() -> CommitRecord:
    """A record with all fields set."""
    world = World(DictStorage(), random.Random(4))
    world.epoch()
    world.epoch()
    world.snapshot_all()
    world.plan_moves(0.5)
    world.manifest = 0
    record = world.next_record()
    assert record.moves
    assert record.snapshots
    return record


def sealed(body: dict[str, object]) -> bytes:
    """A file with a correct checksum, whatever its content."""
    text = json.dumps(body, separators=(",", ":")).encode()[1:]
    return b'{"checksum":"' + named_digest(NAME, text).encode() + b'",' + text


@given(st.sets(st.integers(0, BINS_MAX - 1), max_size=200), st.integers(0, 5000), st.integers(0, 3000))
def test_sets_of_bins_survive_packing(some: set[int], start: int, length: int) -> None:
    """Any set of bins survives packing into text; equal sets give equal text."""
    for bins in (BinSet(some), BinSet(range(start, start + length)), BinSet(range(start, start + length, 3))):
        packed = binsets.pack(bins)
        assert binsets.unpack(packed) == bins
        assert binsets.pack(BinSet(reversed(list(bins)))) == packed


def test_packed_bins_are_short() -> None:
    """Ranges are readable; the worst set of 4,096 bins stays below 800 characters."""
    assert binsets.pack(BinSet([*range(1024), 1030])) == "0-1023,1030"
    rng = random.Random(1)
    assert len(binsets.pack(BinSet([b for b in range(4096) if rng.random() < 0.5]))) < 800


@pytest.mark.parametrize(
    "text",
    [
        "x",
        "1-",
        "3-1",
        "2,1",
        "1,1",
        "-1",
        "0-9999999",
        "1,,2",
        "x:AAAA",
        "0:!",
        "0:AAAA",
        "99999999:eJw",
        "0:eJwDAAAAAAE=",
    ],
)
def test_bad_bins_are_refused(text: str) -> None:
    """Text that is not a set of bins, or a bitmap that would expand without limit, is an error."""
    with pytest.raises(ValueError, match=r"bin"):
        binsets.unpack(text)


def test_a_bitmap_cannot_unfold_without_end() -> None:
    """A small text that expands to gigabytes is rejected after a bounded amount of work."""
    bomb = base64.b64encode(zlib.compress(bytes(200_000_000), 9)).decode()
    with pytest.raises(ValueError, match="more than"):
        binsets.unpack("0:" + bomb)


def test_a_record_comes_back_as_it_was() -> None:
    """Encoding and decoding are inverse and deterministic, and the file is readable JSON."""
    record = some_record()
    data = encode_record(record)
    assert decode_record(NAME, data) == record
    assert encode_record(decode_record(NAME, data)) == data
    assert json.loads(data)["epoch"] == 2


def test_every_altered_byte_of_a_record_is_noticed() -> None:
    """After a flipped bit, a truncation or an addition, the error names the record as damaged."""
    data = encode_record(some_record())
    rng = random.Random(7)
    damaged = [data[:at] + bytes([data[at] ^ (1 << rng.randrange(8))]) + data[at + 1 :] for at in range(len(data))]
    damaged += [data[:at] for at in range(0, len(data), 50)] + [data + b" ", b" " + data]
    for each in damaged:
        with pytest.raises(LogDamaged, match=NAME):
            decode_record(NAME, each)


def test_a_record_under_another_name_is_refused() -> None:
    """A record copied to another epoch's name is noticed, by its checksum and by its epoch."""
    other = layout.record_name(Epoch(3))
    with pytest.raises(LogDamaged, match=f"{other} .* put there from elsewhere"):
        decode_record(other, encode_record(some_record()))
    with pytest.raises(LogDamaged, match="renamed or copied"):
        decode_record(other, envelope.encode(other, some_record(), 10**6))


def test_records_of_older_formats_are_read_and_newer_ones_are_not_taken_for_them() -> None:
    """A binshift that only reads older formats finds unknown fields in new files, so it must be stopped before that."""
    for format in (2, 3):
        written = sealed(msgspec.to_builtins(some_record()) | {"format": format})
        assert decode_record(NAME, written) == msgspec.structs.replace(some_record(), format=format)
    assert json.loads(encode_record(some_record()))["format"] == 4


def test_foreign_versions_are_no_damage() -> None:
    """An intact file of another format is rejected as such, and the message has the fix."""
    with pytest.raises(ForeignLog, match=r"format 5.*Run the binshift that wrote it.*another checkpoint"):
        decode_record(NAME, sealed({"format": 5, "surprise": True}))
    text = b'"format":1,"surprise":1}'  # from before checksums covered names
    with pytest.raises(ForeignLog, match="format 1"):
        decode_record(NAME, b'{"checksum":"' + digest(text).encode() + b'",' + text)


@pytest.mark.parametrize(
    "change",
    [{"surprise": 1}, {"epoch": "2"}, {"epoch": None}, {"workers": [0.5]}, {"moves": [[0, "1"]]}, {"watermarks": []}],
)
def test_decoding_is_strict(change: dict[str, object]) -> None:
    """Unknown fields and wrong types are errors even with a correct checksum."""
    body = msgspec.to_builtins(some_record())
    with pytest.raises(LogDamaged, match=NAME):
        decode_record(NAME, sealed({**body, **change}))
    assert decode_record(NAME, sealed(body)) == some_record()


def test_size_limits_hold_both_ways(monkeypatch: pytest.MonkeyPatch) -> None:
    """A record above its limit is neither written nor read."""
    record = some_record()
    data = encode_record(record)
    monkeypatch.setattr(commits, "RECORD_BYTES_MAX", len(data) - 1)
    with pytest.raises(StateTooLarge, match=f"more than {len(data) - 1}"):
        encode_record(record)
    with pytest.raises(LogDamaged, match=f"{len(data)} bytes"):
        decode_record(NAME, data)
    monkeypatch.setattr(commits, "RECORD_BYTES_MAX", len(data))
    assert decode_record(NAME, encode_record(record)) == record


def test_a_manifest_of_other_operators_is_refused() -> None:
    """A manifest is bound to its name, bins and operators, and to the contents of its records."""
    world = World(DictStorage(), random.Random(4))
    for _ in range(3):
        world.epoch()
    data = manifests.encode_manifest(world.index, Epoch(1))
    name = layout.manifest_name(Epoch(1))
    assert manifests.decode_manifest(name, data, world.bins, world.operators).last == 1
    for other, bins, operators in (
        (layout.manifest_name(Epoch(2)), world.bins, world.operators),
        (name, 8, world.operators),
        (name, world.bins, ("count",)),
    ):
        with pytest.raises(LogDamaged):
            manifests.decode_manifest(other, data, bins, operators)
    with pytest.raises(InvariantViolated):
        manifests.encode_manifest(world.index, Epoch(3))


def test_names_have_their_kind() -> None:
    """Names are built and parsed by one module, and parsing is the inverse of building."""
    delta = layout.delta_name(Epoch(7), "count_1", Worker(3), "5.7.0.x")
    snapshot = layout.snapshot_name(Epoch(7), "count_1", Worker(3), "5.7.0.x", 12)
    assert delta == "deltas/00000000000000000007/count_1-3-5.7.0.x.arrow"
    assert snapshot == "snapshots/00000000000000000007/count_1-3-5.7.0.x-12.arrow"
    for name, kind in ((delta, "deltas"), (snapshot, "snapshots")):
        assert layout.parse(name) == (kind, 7, "count_1", 3, "5.7.0.x")
        parsed = layout.parse(name)
        assert parsed is not None
        assert parsed.term == 5
    for name, kind, number in (
        (layout.record_name(Epoch(1)), "records", 1),
        (layout.manifest_name(Epoch(2)), "manifests", 2),
        (layout.term_name(Term(3)), "terms", 3),
        (layout.target_name(4), "targets", 4),
        (layout.FORMAT, "format", -1),
    ):
        parsed = layout.parse(name)
        assert parsed is not None
        assert (parsed.kind, parsed.number) == (kind, number)
    foreign = ["records/1.json", "x", delta + "x", delta.replace(".arrow", "-1.arrow"), snapshot.replace("-12", "")]
    assert [layout.parse(name) for name in foreign] == [None] * len(foreign)


def test_unfit_names_are_refused() -> None:
    """An operator's name comes from the user, so a bad one is a user error; an attempt id is binshift's own."""
    with pytest.raises(InvalidSettings, match="'my operator'"):
        layout.delta_name(Epoch(1), "my operator", Worker(0), "1.1.0.x")
    for attempt in ("genesis", "", "1.a/b", "1.x-y", "1." + "a" * 64):
        with pytest.raises(InvariantViolated, match="attempt id"):
            layout.delta_name(Epoch(1), "count", Worker(0), attempt)


def test_the_envelope_is_plain() -> None:
    """The checksum is the first field and covers the name and all bytes after it."""
    data = encode_record(some_record())
    assert data.startswith(b'{"checksum":"')
    assert data[13:29].decode() == named_digest(NAME, data[31:])
    assert json.loads(data)["format"] == envelope.FORMAT_VERSION
