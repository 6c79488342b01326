"""Reports of test runs: only test cases count."""

import pytest

from upturn.errors import FileFormatError
from upturn.rewards import TestReport, read_junit

REPORT = """<?xml version="1.0" encoding="utf-8"?>
<testsuites name="pytest tests"><testsuite name="pytest" errors="0" failures="0" skipped="0" tests="99">
<testcase classname="test_a" name="test_one" time="0.001" />
<testcase classname="test_a" name="test_two"><failure message="assert 1 == 2">trace</failure></testcase>
<testcase classname="test_a" name="test_three"><error message="setup">trace</error></testcase>
<testcase classname="test_a" name="test_four"><skipped type="pytest.skip" message="no" /></testcase>
<testsuite><testcase name="inner"><system-out>text</system-out></testcase></testsuite>
</testsuite></testsuites>"""


def test_cases_are_read_and_stated_counts_are_not() -> None:
    report = read_junit(REPORT)
    assert report == TestReport(
        ("test_a.test_one", "inner"), ("test_a.test_two", "test_a.test_three"), ("test_a.test_four",)
    )
    assert (report.total, report.share()) == (5, 0.4)


def test_tests_that_are_not_reported_have_failed() -> None:
    report = TestReport(("a",), (), ())
    assert (report.share(), report.share(least=4)) == (1.0, 0.25)
    assert TestReport((), (), ()).share() == 0.0
    assert TestReport(("a",), (), ("b",)).share(least=0) == 0.5


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "this is no JUnit report"),
        ("<testsuite>", "this is no JUnit report"),
        ("<html/>", "begins with testsuites or testsuite, got 'html'"),
        ('<!DOCTYPE x [<!ENTITY a "b">]><testsuite/>', "no document type"),
        ("\0", "this is no JUnit report"),
    ],
)
def test_other_texts_are_refused(text: str, problem: str) -> None:
    with pytest.raises(FileFormatError, match=problem):
        read_junit(text)
