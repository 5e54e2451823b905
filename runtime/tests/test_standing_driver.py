"""The driver's end of standing tasks, with messages that come late, twice, from another attempt, or not at all.

This test is in the place of the tasks: its reports go through the same method as theirs over Spark's RPC.
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any

import pytest
from py4j.protocol import Py4JJavaError
from standing_ends import Driver, Question

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


REMOVED = "org.apache.spark.scheduler.SparkListenerExecutorRemoved"


@pytest.fixture
def driver(spark: SparkSession) -> Iterator[Driver]:
    """One without tasks."""
    made = Driver(spark)
    yield made
    made.close()


def both_answer(driver: Driver, asked: Question, answers: Future[list[str]]) -> None:
    """Tasks 1 and 2 have got their orders, the first for the question ``asked``; the second answers first."""
    assert asked.replied.wait(20)
    driver.report("2", "done", 1, "b")
    assert not answers.done()
    driver.report("1", "done", 1, "a")
    assert answers.result(20) == ["a", "b"]


def failed(answers: Future[list[str]]) -> str:
    """Why an epoch has failed."""
    with pytest.raises(Py4JJavaError) as caught:
        answers.result(20)
    return str(caught.value.java_exception.getMessage())


def test_an_epoch_has_the_answers_of_all_its_tasks(driver: Driver) -> None:
    """In the order in which they were asked, not in that of their answers."""
    first, second = driver.ready("1"), driver.ready("2")
    answers = driver.ask("1", "2")
    assert second.replied.wait(20)
    both_answer(driver, first, answers)


def test_a_task_without_an_answer_does_not_hide_those_of_others(driver: Driver) -> None:
    """A message has an answer or a reason from each task; the next message finds the others."""
    first, second, third = (driver.ready(id) for id in "123")
    answers = driver.passed("1", "2", "3")
    for question in (first, second, third):
        assert question.replied.wait(20)
        assert question.replies == ["pass"]
    driver.lost("2", "ExecutorLostFailure (executor 2 exited)")
    driver.report("3", "failed", 1, "ValueError: 3")
    assert not answers.done()
    again = driver.report("1", "done", 1, "a")
    assert answers.result(20) == ["a", "ExecutorLostFailure (executor 2 exited)", "ValueError: 3"]
    assert failed(driver.passed("1", "2")).startswith("Worker lost: the standing task of executor 2 has ended")
    answers = driver.passed("1")
    assert again.replied.wait(20)
    driver.report("1", "done", 1, "b")
    assert answers.result(20) == ["b"]


def test_a_lost_answer_is_a_failed_run(driver: Driver) -> None:
    """Spark reports the end of a task whose message did not come; the epoch ends with it."""
    question = driver.ready("1")
    answers = driver.ask("1")
    assert question.replied.wait(20)
    driver.lost("1", "Worker lost: its standing task has ended")
    assert failed(answers) == "Worker lost: its standing task has ended"
    assert failed(driver.ask("1")).startswith("Worker lost: the standing task of executor 1 has ended")


def test_an_executor_that_spark_removes_is_a_failed_run(driver: Driver, spark: SparkSession) -> None:
    """The job of its task can last: Spark may have the task wait for another executor."""
    question = driver.ready("7")
    answers = driver.ask("7")
    assert question.replied.wait(20)
    context: Any = spark.sparkContext._jsc.sc()
    removed = context.getClass().getClassLoader().loadClass(REMOVED).getConstructors()[0]
    event = removed.newInstance(driver.array(0, "7", "it was lost"))
    context.listenerBus().post(event)
    assert failed(answers) == "Worker lost: Spark has removed executor 7: it was lost"


def test_the_answer_of_an_earlier_run_is_not_taken_for_the_next(driver: Driver) -> None:
    """A task is busy with it, so no other epoch begins; its late answer is dropped."""
    driver.ready("1")
    question = driver.ready("2")
    answers = driver.ask("1", "2")
    assert question.replied.wait(20)
    driver.report("2", "failed", 1, "ValueError: 7")
    assert failed(answers) == "ValueError: 7"
    assert not driver.are_ready("1,2").result(20)
    assert "busy with an earlier run" in failed(driver.ask("1", "2"))
    again = driver.report("1", "done", 1, "late")
    assert driver.are_ready("1,2").result(20)
    answers = driver.ask("1", "2")
    both_answer(driver, again, answers)


def test_tasks_in_the_middle_of_an_order_are_waited_for(driver: Driver) -> None:
    """They are ready with their answers; a task that has ended is not waited for, nor is one that takes too long."""
    questions = [driver.ready("1"), driver.ready("2")]
    answers = driver.ask("1", "2")
    for question in questions:
        assert question.replied.wait(20)
    ready = driver.are_ready("1,2", 60_000)
    driver.report("1", "done", 1, "a")
    assert not driver.are_ready("1,2", 10).result(20)
    assert not ready.done()
    driver.report("2", "done", 1, "b")
    assert ready.result(20)
    assert answers.result(20) == ["a", "b"]
    late = driver.ask("1")
    driver.lost("2", "ExecutorLostFailure (executor 2 exited)")
    assert not driver.are_ready("1,2", 60_000).result(20)
    driver.report("1", "done", 1, "c")
    assert late.result(20) == ["c"]


def test_a_task_that_comes_twice_replaces_the_first(driver: Driver) -> None:
    """The epoch that waits for the first one fails; a later report of the first one is refused, and it has to end."""
    older = driver.ready("1", attempt=5)
    answers = driver.ask("1")
    assert older.replied.wait(20)
    newer = driver.ready("1", attempt=6)
    assert failed(answers) == "Worker lost: the standing task of executor 1 has begun again"
    assert driver.report("1", "done", 5, "old").replies == ["end"]
    assert driver.ready("1", attempt=5).replies == ["end"]
    answers = driver.ask("1")
    assert newer.replied.wait(20)
    driver.report("1", "done", 6, "new")
    assert answers.result(20) == ["new"]


def test_tasks_end_with_the_query(driver: Driver) -> None:
    """At once, or with their next report; so does one that comes later."""
    waiting, question = driver.ready("1"), driver.ready("2")
    answers = driver.ask("2")
    assert question.replied.wait(20)
    driver.end()
    assert waiting.replies == ["end"]
    assert driver.report("2", "done", 1, "late").replies == ["end"]
    assert failed(answers) == "Job 0 cancelled: the query is being stopped"
    assert driver.ready("3").replies == ["end"]


def test_a_plan_of_an_order_that_is_not_given_is_sent_again(driver: Driver) -> None:
    """One task is ready for it and the other one is not: neither gets the order."""
    driver.ready("1")
    assert driver.given("1", 7, bytearray(b"plan"))[1] is not None
    assert failed(driver.ask("1", "2")).startswith("Worker lost: the standing task of executor 2 has ended")
    assert driver.given("1", 7, bytearray(b"plan"))[1] is not None


def test_a_task_gets_a_plan_once(driver: Driver) -> None:
    """And again after it has failed, as it can have lost it; of many plans, the driver knows which ones a task has dropped."""
    driver.ready("1")
    content = bytearray(b"plan")

    def sent(number: int) -> bool:
        return driver.given("1", number, content)[1] is not None

    assert [sent(each) for each in (1, 2, 1, 2)] == [True, True, False, False]
    driver.report("1", "failed", 1, "OutOfMemoryError")
    assert [sent(each) for each in (1, 1)] == [True, False]
    assert [sent(each) for each in range(10, 41)] == [True] * 31
    assert [sent(1), sent(41), sent(10)] == [False, True, True]
