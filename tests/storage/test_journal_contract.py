"""The Journal port: an append-only chained ledger, contents for undo, review state, durable jobs."""

from __future__ import annotations

import multiprocessing
import threading
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from tests.storage.contract import (
    LEASE_S,
    LIFT_GUARDS,
    REFUSALS,
    TAMPER,
    OpenStorage,
    claim_all,
    open_and_enqueue,
    open_storage,
)

from scrimshaw.models import Action, Entry, JobState, Redacted, Wipe
from scrimshaw.storage.journal import Journal
from scrimshaw.storage.maintenance import Maintenance
from scrimshaw.storage.ports import Review, StoredText

OVER = -1.0  # a lease that is over as soon as it begins


def entry(memory_id: str = "a", prior: str = "", new: str = "h1", **fields: object) -> Entry:
    base = Entry(action=Action.UPDATE, memory_id=memory_id, reason="why", prior_hash=prior, new_hash=new, actor="agent")
    return replace(base, **fields)


def text(content: str) -> Redacted:
    return Redacted(text=content)


def record(
    journal: Journal,
    changes: Sequence[tuple[Entry, Redacted | None]],
    jobs: Sequence[tuple[str, str]] = (),
    texts: Sequence[StoredText] = (),
) -> list[int]:
    """Record entries, each with the text that it replaced where there was one."""
    replaced = [StoredText(entry.memory_id, entry.prior_hash, prior) for entry, prior in changes if prior]
    return journal.record([entry for entry, _ in changes], jobs, [*replaced, *texts])


# Ledger


def test_a_new_journal_is_empty_and_sound(journal: Journal, maintenance: Maintenance) -> None:
    assert journal.verify() == (0, 0)
    assert journal.last_hashes() == {}
    assert journal.history("a", 5) == []
    assert journal.jobs() == []
    assert maintenance.check("journal") == maintenance.check("journal", quick=True) == []
    assert maintenance.size_bytes("journal") > 0


def test_history_tells_what_was_recorded_newest_first(journal: Journal) -> None:
    full = entry(new="h2", session="s", linked_memory_ids=("b", "ü"), decision_meta={"why": {"deep": [1, "ß"]}})
    assert record(journal, [(entry(), None), (entry("b"), None)]) == [1, 2]
    assert record(journal, [(full, None)]) == [3]
    newest, oldest = journal.history("a", 10)
    assert [newest["seq"], oldest["seq"]] == [3, 1]
    for name in ("action", "memory_id", "reason", "prior_hash", "new_hash", "actor", "session", "decision_meta"):
        assert newest[name] == getattr(full, name), name
    assert newest["linked_memory_ids"] == ["b", "ü"]
    assert newest["at"] == pytest.approx(time.time(), abs=60)
    assert [row["seq"] for row in journal.history("a", 1)] == [3]
    assert journal.verify() == (3, 0)


def test_last_hashes_are_the_newest_of_each_memory(journal: Journal) -> None:
    for name, new in (("a", "z"), ("b", "1"), ("a", "m"), ("c", "9"), ("a", "b"), ("c", "")):
        record(journal, [(entry(name, new=new), None)])
        journal.last_hashes()["a"] = "changed by who asked"
    assert journal.last_hashes() == {"a": "b", "b": "1", "c": ""}


@pytest.mark.parametrize(
    "column",
    ["at", "action", "memory_id", "reason", "prior_hash", "new_hash", "linked_memory_ids", "decision_meta", "actor",
     "session", "chain"],
)  # fmt: skip
def test_an_edited_row_is_named(journal: Journal, shared_engine: str, tmp_path: Path, column: str) -> None:
    record(journal, [(entry(new=str(number)), None) for number in range(4)])
    value = "1.5" if column == "at" else "'edited'"
    TAMPER[shared_engine](tmp_path, f"{LIFT_GUARDS[shared_engine]} UPDATE ledger SET {column} = {value} WHERE seq = 3")
    assert journal.verify()[1] == 3


def test_a_deleted_row_is_missed(journal: Journal, shared_engine: str, tmp_path: Path) -> None:
    record(journal, [(entry(new=str(number)), None) for number in range(4)])
    TAMPER[shared_engine](tmp_path, f"{LIFT_GUARDS[shared_engine]} DELETE FROM ledger WHERE seq = 2")
    assert journal.verify()[1] == 2


@pytest.mark.parametrize(("cut", "first"), [("seq >= 3", 3), ("seq = 4", 4), ("seq > 0", 1)])
def test_rows_cut_off_the_end_are_missed(
    journal: Journal, shared_engine: str, tmp_path: Path, cut: str, first: int
) -> None:
    record(journal, [(entry(new=str(number)), None) for number in range(4)])
    assert journal.last_hashes() == {"a": "3"}
    TAMPER[shared_engine](tmp_path, f"{LIFT_GUARDS[shared_engine]} DELETE FROM ledger WHERE {cut}")
    assert journal.verify() == (first - 1, first)
    assert journal.last_hashes() == ({"a": str(first - 2)} if first > 1 else {})


def test_a_record_that_was_rolled_back_is_not_missed(journal: Journal) -> None:
    record(journal, [(entry(), None)])
    with pytest.raises(UnicodeEncodeError):
        record(journal, [(entry(), None), (entry("b", prior="p"), text("\ud800"))])
    assert journal.verify() == (1, 0)


def test_history_is_of_a_memory_a_session_or_all(journal: Journal) -> None:
    record(journal, [(entry(), None), (entry("b", session="s"), None), (entry("a", session="s"), None)])
    assert [row["seq"] for row in journal.history()] == [3, 2, 1]
    assert [row["seq"] for row in journal.history(limit=2)] == [3, 2]
    assert [row["seq"] for row in journal.history(session="s")] == [3, 2]
    assert [row["seq"] for row in journal.history("a", session="s")] == [3]
    assert [row["seq"] for row in journal.history("b", new_hash=journal.history("b")[0]["new_hash"])] == [2]
    assert journal.history(new_hash="of no row") == []


def test_a_committed_transaction_is_known_by_its_mark(journal: Journal) -> None:
    record(journal, [(entry(decision_meta={"mark": "m1"}), None), (entry("b"), None)])
    assert [len(journal.history(mark=mark)) for mark in ("m1", "m2", "")] == [1, 0, 2]


def test_last_hashes_go_by_the_file_an_entry_names(journal: Journal) -> None:
    record(journal, [(entry(), None), (entry(new="h2", decision_meta={"file": "links.toml"}), None)])
    assert journal.last_hashes() == {"a": "h1", "links.toml": "h2"}


@pytest.mark.parametrize(
    "sql", ["UPDATE ledger SET reason = 'x'", "DELETE FROM ledger", "DELETE FROM ledger WHERE seq > 0"]
)
def test_the_database_itself_refuses_changes(journal: Journal, shared_engine: str, tmp_path: Path, sql: str) -> None:
    record(journal, [(entry(), None)])
    with pytest.raises(REFUSALS[shared_engine], match="append-only"):
        TAMPER[shared_engine](tmp_path, sql)
    assert journal.verify() == (1, 0)


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.text(st.characters(exclude_categories=["Cs"])), st.dictionaries(st.text(max_size=5), st.integers()))
def test_any_reason_keeps_the_chain(journal: Journal, reason: str, meta: dict[str, int]) -> None:
    (number,) = record(journal, [(entry("a", reason=reason, decision_meta=meta), None)])
    assert journal.verify() == (number, 0)
    assert journal.history("a", 1)[0]["decision_meta"] == meta


def test_a_record_is_whole_or_not_at_all(journal: Journal) -> None:
    with pytest.raises(UnicodeEncodeError):
        record(journal, [(entry(), text("first")), (entry("b", prior="p"), text("\ud800"))], [("embed", "")])
    assert journal.verify() == (0, 0)
    assert journal.jobs() == []


def test_writers_in_threads_make_one_chain(journal: Journal) -> None:
    def work() -> None:
        for _ in range(10):
            record(journal, [(entry(), None)])

    threads = [threading.Thread(target=work) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert journal.verify() == (30, 0)


def test_what_was_recorded_is_there_after_reopening(
    journal: Journal, storage: OpenStorage, durable_engine: str, tmp_path: Path
) -> None:
    record(journal, [(entry(prior="p"), text("before"))])
    storage.close()
    with open_storage(durable_engine, tmp_path) as again:
        assert again.journal.verify() == (1, 0)
        assert again.journal.prior_text("a", "p") == "before"


# Prior contents and purge


def test_prior_contents_are_kept_by_memory_and_hash(journal: Journal) -> None:
    record(journal, [(entry(prior="p1"), text("one 🚀")), (entry("b", prior="p1"), text("of b"))])
    record(journal, [(entry(prior="p2"), text("two")), (entry(prior="p3"), None)])
    assert [journal.prior_text("a", name) for name in ("p1", "p2", "p3")] == ["one 🚀", "two", None]
    assert journal.prior_text("b", "p1") == "of b"
    assert journal.prior_text("nobody", "p1") is None


def test_texts_are_kept_beside_the_rows_or_alone(journal: Journal) -> None:
    record(
        journal,
        [(entry(prior="p1"), None)],
        (),
        [StoredText("a", "n1", text("now")), StoredText("links.toml", "n2", text("l"))],
    )
    assert (
        record(journal, [], (), [StoredText("a", "n1", text("not twice")), StoredText("a", "p0", text("alone"))]) == []
    )
    assert [journal.prior_text("a", name) for name in ("p1", "n1", "p0")] == [None, "now", "alone"]
    assert journal.prior_text("links.toml", "n2") == "l"
    assert journal.verify() == (1, 0)


class Literal:
    """The traces of one text, as it is."""

    def __init__(self, needle: str = "") -> None:
        self._needle = needle.encode()

    def count(self, data: bytes) -> int:
        return data.count(self._needle) if self._needle else 0

    def erase(self, data: bytes) -> bytes:
        return data.replace(self._needle, b"[GONE]") if self._needle else data

    def mask(self, text: str) -> str:
        return self.erase(text.encode()).decode()


def purged(memory_id: str = "") -> Entry:
    return replace(entry(memory_id), action=Action.PURGE)


def test_a_purged_memory_loses_contents_and_review_but_no_ledger_row(
    journal: Journal, maintenance: Maintenance
) -> None:
    record(journal, [(entry(prior="p1"), text("one")), (entry(prior="p2"), text("two"))])
    record(journal, [(entry("b", prior="p1"), text("of b"))])
    journal.update_review("a", lambda _: review("a"))
    of_a = Wipe(Literal(), memory_ids=("a",))
    assert maintenance.count_traces("journal", of_a) == {"contents": 2, "reviews": 1}
    assert maintenance.erase(of_a, purged("a")) == {"contents": 2, "reviews": 1}
    assert journal.prior_text("a", "p1") is None
    assert journal.prior_text("b", "p1") == "of b"
    assert journal.reviews(["a"]) == {}
    assert maintenance.count_traces("journal", of_a) == {}
    assert maintenance.erase(of_a, purged("a")) == {}
    assert journal.verify() == (5, 0)


def test_a_text_goes_from_every_row_and_the_ledger_is_chained_again(journal: Journal, maintenance: Maintenance) -> None:
    told = replace(entry(prior="p1"), reason="says walrus-ivory", decision_meta={"why": "walrus-ivory"})
    record(journal, [(told, text("of walrus-ivory")), (entry("b"), None)])
    journal.enqueue("embed", "walrus-ivory", {"text": "walrus-ivory"})
    before = journal.history(limit=1)[0]["chain"]
    wipe = Wipe(Literal("walrus-ivory"))
    assert maintenance.erase(wipe, purged()) == {"contents": 1, "jobs": 1, "ledger": 1}
    assert maintenance.count_traces("journal", wipe) == {}
    assert journal.verify() == (3, 0)
    newest, _, oldest = journal.history()
    assert newest["decision_meta"] == {"rows": {"contents": 1, "jobs": 1, "ledger": 1}, "chain_before": before}
    assert (oldest["reason"], oldest["decision_meta"]) == ("says [GONE]", {"why": "[GONE]"})
    assert journal.prior_text("a", "p1") == "of [GONE]"


def test_after_a_purge_the_ledger_takes_no_change_again(
    journal: Journal, maintenance: Maintenance, shared_engine: str, tmp_path: Path
) -> None:
    record(journal, [(replace(entry(), reason="walrus-ivory"), None)])
    maintenance.erase(Wipe(Literal("walrus-ivory")), purged())
    for change in ("UPDATE ledger SET reason = 'x'", "DELETE FROM ledger"):
        with pytest.raises(REFUSALS[shared_engine], match="append-only"):
            TAMPER[shared_engine](tmp_path, change)


@pytest.mark.parametrize(
    "change", ["UPDATE ledger SET actor = 'nobody' WHERE seq = 2", "DELETE FROM ledger WHERE seq = 2"]
)
def test_a_chain_that_was_broken_before_is_told(
    journal: Journal, maintenance: Maintenance, shared_engine: str, tmp_path: Path, change: str
) -> None:
    record(journal, [(replace(entry(), reason="walrus-ivory"), None), (entry("b"), None)])
    TAMPER[shared_engine](tmp_path, f"{LIFT_GUARDS[shared_engine]} {change}")
    maintenance.erase(Wipe(Literal("walrus-ivory")), purged())
    assert journal.history(limit=1)[0]["decision_meta"]["broken_before"] == 2
    assert journal.history(limit=9)[-1]["reason"] == "[GONE]"


@pytest.mark.parametrize("reopened", [False, True])
def test_purged_text_is_not_left_on_the_disk(
    storage: OpenStorage, shared_engine: str, tmp_path: Path, reopened: bool
) -> None:
    if shared_engine != "sqlite":
        pytest.skip("its files are those of a server")
    journal, maintenance = storage.journal, storage.maintenance
    needle = ("carved-in-" + "walrus-ivory").encode()

    def holders() -> list[str]:
        return [file.name for file in tmp_path.rglob("*") if file.is_file() and needle in file.read_bytes()]

    record(journal, [(entry(prior="p1"), text(needle.decode() * 400))])
    if reopened:
        storage.close()  # what was logged is in the database now
    assert holders()
    maintenance.erase(Wipe(Literal(), memory_ids=("a",)), purged("a"))
    assert maintenance.compact() == []
    assert holders() == []


# Review state


def review(memory_id: str, **fields: float) -> Review:
    return replace(Review(memory_id=memory_id, stability=2.5, difficulty=5.0, last_review=1e9), **fields)


def test_review_state_is_stored_and_replaced(journal: Journal) -> None:
    journal.update_review("a", lambda _: review("a"))
    journal.update_review("a", lambda _: review("a", reviews=2, useful=1, not_useful=1, confidence=0.55))
    journal.update_review("b", lambda _: review("b"))
    assert journal.reviews(["a", "absent"]) == {
        "a": review("a", reviews=2, useful=1, not_useful=1, confidence=0.55),
    }


def rename(before: Review | None, to: str) -> Review | None:
    return before and replace(before, memory_id=to)


def test_a_rename_carries_the_review_state(journal: Journal) -> None:
    journal.update_review("old", lambda _: review("old", stability=9.0))
    journal.update_review("taken", lambda _: review("taken", stability=1.0))
    journal.update_review("old", partial(rename, to="taken"))
    assert journal.reviews(["old", "taken"]) == {"taken": review("taken", stability=9.0)}
    assert journal.update_review("unreviewed", partial(rename, to="taken")) is None
    assert journal.reviews(["taken"])["taken"].stability == 9.0


# Jobs


def test_a_job_lives_from_queued_to_done(journal: Journal) -> None:
    number = journal.enqueue("work", "k", {"paths": ["ü"]}, total=4)
    (job,) = journal.jobs(number=number)
    assert (job.kind, job.key, job.payload, job.state, job.total) == ("work", "k", {"paths": ["ü"]}, "queued", 4)
    claimed = journal.claim(["other", "work"], LEASE_S)
    assert claimed is not None
    assert (claimed.id, claimed.state, claimed.attempts) == (number, JobState.RUNNING, 1)
    assert journal.renew_lease(claimed, 2, 9, LEASE_S)
    (job,) = journal.jobs(number=number)
    assert (job.done, job.total) == (2, 9)
    journal.finish(claimed, JobState.DONE, "a note")
    (job,) = journal.jobs(number=number)
    assert (job.state, job.error) == (JobState.DONE, "a note")
    assert journal.claim(["work"], LEASE_S) is None
    assert journal.jobs(number=999) == []


def test_the_same_work_waits_once(journal: Journal) -> None:
    first = journal.enqueue("work", "k", {"n": 1})
    assert journal.enqueue("work", "k", {"n": 2}) == first
    assert journal.enqueue("work", "other", {}) != first
    assert journal.enqueue("embed", "k", {}) != first
    record(journal, [(entry(), None)], [("work", "k"), ("fresh", "")])
    assert sorted((job.kind, job.key) for job in journal.jobs()) == [
        ("embed", "k"), ("fresh", ""), ("work", "k"), ("work", "other"),
    ]  # fmt: skip
    journal.claim(["work"], LEASE_S)
    assert journal.enqueue("work", "k", {}) != first


def test_kinds_are_claimed_in_the_order_they_are_named(journal: Journal) -> None:
    for kind in ("vectors", "draft", "sync", "draft"):
        journal.enqueue(kind, str(len(journal.jobs())), {})
    claimed = [journal.claim(["draft", "sync", "none", "vectors"], LEASE_S) for _ in range(5)]
    assert [job and job.kind for job in claimed] == ["draft", "draft", "sync", "vectors", None]


def test_the_oldest_is_claimed_first_and_only_of_the_kinds_asked_for(journal: Journal) -> None:
    first, second, other = (journal.enqueue(kind, str(n), {}) for n, kind in enumerate(("work", "work", "other")))
    claimed = [journal.claim(["work"], LEASE_S) for _ in range(3)]
    assert [job and job.id for job in claimed] == [first, second, None]
    assert journal.claim([], LEASE_S) is None
    last = journal.claim(["work", "other"], LEASE_S)
    assert last is not None
    assert last.id == other


def test_a_job_whose_lease_ran_out_is_claimed_again(journal: Journal) -> None:
    number = journal.enqueue("work", "", {})
    journal.claim(["work"], OVER)
    again = journal.claim(["work"], LEASE_S)
    assert again is not None
    assert (again.id, again.attempts) == (number, 2)
    assert journal.claim(["work"], LEASE_S) is None


def test_a_renewed_lease_is_kept(journal: Journal, monkeypatch: pytest.MonkeyPatch) -> None:
    journal.enqueue("work", "", {})
    start = time.time()
    job = journal.claim(["work"], LEASE_S)
    assert job is not None
    assert journal.renew_lease(job, 0, 1, 3 * LEASE_S)
    monkeypatch.setattr("time.time", lambda: start + 2 * LEASE_S)
    assert journal.claim(["work"], LEASE_S) is None


def test_a_worker_that_lost_its_job_learns_it(journal: Journal, durable_engine: str, tmp_path: Path) -> None:
    journal.enqueue("work", "", {})
    lost = journal.claim(["work"], OVER)
    assert lost is not None
    with open_storage(durable_engine, tmp_path) as again:
        other = again.journal
        taken = other.claim(["work"], LEASE_S)
        assert taken is not None
        assert not journal.renew_lease(lost, 1, 1, LEASE_S)
        journal.finish(lost, JobState.DONE)
        assert other.renew_lease(taken, 1, 1, LEASE_S)


def test_a_cancelled_job_stays_cancelled(journal: Journal) -> None:
    waiting, running = (journal.enqueue("work", key, {}) for key in ("later", "now"))
    assert journal.change_job(waiting, JobState.CANCELLED)
    claimed = journal.claim(["work"], LEASE_S)
    assert claimed is not None
    assert claimed.id == running
    assert journal.change_job(running, JobState.CANCELLED)
    assert not journal.renew_lease(claimed, 1, 1, LEASE_S)
    journal.finish(claimed, JobState.DONE)
    assert not journal.change_job(running, JobState.CANCELLED)
    assert not journal.change_job(999, JobState.CANCELLED)
    assert {job.state for job in journal.jobs()} == {JobState.CANCELLED}
    assert journal.claim(["work"], LEASE_S) is None


def test_work_that_was_done_later_is_no_failure(journal: Journal) -> None:
    for key, state in (("k", JobState.FAILED), ("other", JobState.FAILED), ("k", JobState.DONE)):
        journal.enqueue("work", key, {})
        claimed = journal.claim(["work"], LEASE_S)
        assert claimed is not None
        journal.finish(claimed, state)
    assert [job.key for job in journal.jobs([JobState.FAILED])] == ["other"]


def test_the_same_work_does_not_run_twice_at_once(journal: Journal) -> None:
    journal.enqueue("work", "k", {})
    first = journal.claim(["work"], LEASE_S)
    assert first is not None
    later = journal.enqueue("work", "k", {})
    other = journal.enqueue("work", "other", {})
    second = journal.claim(["work"], LEASE_S)
    assert second is not None
    assert (second.id, journal.claim(["work"], LEASE_S)) == (other, None)
    journal.finish(first, JobState.DONE)
    third = journal.claim(["work"], LEASE_S)
    assert third is not None
    assert third.id == later


def test_a_job_that_is_given_back_has_lost_no_attempt(journal: Journal) -> None:
    number = journal.enqueue("work", "", {})
    for _ in range(3):
        claimed = journal.claim(["work"], LEASE_S)
        assert claimed is not None
        assert (claimed.id, claimed.attempts) == (number, 1)
        journal.finish(claimed, JobState.QUEUED, "stopped")
    (job,) = journal.jobs()
    assert (job.state, job.error, job.attempts) == (JobState.QUEUED, "stopped", 0)


def test_a_failed_job_can_be_put_aside(journal: Journal) -> None:
    number = journal.enqueue("work", "", {})
    claimed = journal.claim(["work"], LEASE_S)
    assert claimed is not None
    journal.finish(claimed, JobState.FAILED, "no luck")
    assert journal.change_job(number, JobState.CANCELLED)
    assert not journal.jobs([JobState.FAILED])


def test_done_jobs_are_forgotten_after_a_month_and_others_never(
    journal: Journal, monkeypatch: pytest.MonkeyPatch
) -> None:
    start = time.time()
    for days, key, state in ((0, "a", JobState.DONE), (20, "b", JobState.FAILED), (40, "c", JobState.DONE)):
        monkeypatch.setattr("time.time", lambda days=days: start + days * 86_400)
        journal.enqueue("work", key, {})
        claimed = journal.claim(["work"], LEASE_S)
        assert claimed is not None
        journal.finish(claimed, state)
    assert [job.key for job in journal.jobs()] == ["c", "b"]


def test_a_failed_job_is_tried_again_when_it_is_due(journal: Journal) -> None:
    number = journal.enqueue("work", "", {})
    first = journal.claim(["work"], LEASE_S)
    assert first is not None
    journal.finish(first, JobState.QUEUED, "no luck", retry_in_s=0.0)
    again = journal.claim(["work"], LEASE_S)
    assert again is not None
    assert (again.attempts, again.error) == (2, "no luck")
    journal.finish(again, JobState.QUEUED, "again", retry_in_s=100.0)
    assert journal.claim(["work"], LEASE_S) is None
    (job,) = journal.jobs(number=number)
    assert job.state == JobState.QUEUED


def test_a_retry_meets_the_same_work_already_waiting(journal: Journal) -> None:
    journal.enqueue("work", "k", {})
    first = journal.claim(["work"], LEASE_S)
    assert first is not None
    journal.enqueue("work", "k", {})
    journal.finish(first, JobState.QUEUED, "busy", retry_in_s=0.0)
    assert len(journal.jobs([JobState.QUEUED])) == 1
    assert journal.claim(["work"], LEASE_S) is not None


def test_jobs_are_listed_newest_first_by_state(journal: Journal) -> None:
    numbers = [journal.enqueue("work", str(number), {}) for number in range(3)]
    journal.change_job(numbers[1], JobState.CANCELLED)
    assert [job.id for job in journal.jobs()] == numbers[::-1]
    assert [job.id for job in journal.jobs([JobState.QUEUED])] == [numbers[2], numbers[0]]
    assert [job.id for job in journal.jobs([JobState.CANCELLED, JobState.DONE])] == [numbers[1]]


def test_threads_never_claim_the_same_job(journal: Journal) -> None:
    numbers = [journal.enqueue("work", str(number), {}) for number in range(40)]
    claimed: list[list[int]] = [[], []]

    def work(mine: list[int]) -> None:
        while job := journal.claim(["work"], LEASE_S):
            mine.append(job.id)

    threads = [threading.Thread(target=work, args=(mine,)) for mine in claimed]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(claimed[0] + claimed[1]) == numbers


def test_processes_never_claim_the_same_job(journal: Journal, shared_engine: str, tmp_path: Path) -> None:
    numbers = [journal.enqueue("work", str(number), {}) for number in range(60)]
    with ProcessPoolExecutor(2, mp_context=multiprocessing.get_context("spawn")) as pool:
        futures = [pool.submit(claim_all, shared_engine, str(tmp_path)) for _ in range(2)]
        claimed = [future.result() for future in futures]
    assert sorted(claimed[0] + claimed[1]) == numbers


def test_processes_open_a_new_journal_at_once(shared_engine: str, tmp_path: Path) -> None:
    with ProcessPoolExecutor(2, mp_context=multiprocessing.get_context("spawn")) as pool:
        for round_ in range(8):
            futures = [pool.submit(open_and_enqueue, shared_engine, str(tmp_path / str(round_))) for _ in range(2)]
            assert [future.result() for future in futures] == [1, 1]
