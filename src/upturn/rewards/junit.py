"""Reports of test runs in the XML of JUnit, as pytest, Maven, Gradle, go-junit-report and others write it.

Only test cases are read, not the counts that the report states about itself. Pure functions.
"""

from xml.etree import ElementTree as ET

from upturn.errors import FileFormatError
from upturn.records import record


@record
class TestReport:
    """The results of tests, by name."""

    __test__ = False  # pytest collects no class of this name

    passed: tuple[str, ...]
    failed: tuple[str, ...]
    """Failures and errors."""
    skipped: tuple[str, ...]

    @property
    def total(self) -> int:
        """All tests, the skipped ones too."""
        return len(self.passed) + len(self.failed) + len(self.skipped)

    def share(self, *, least: int = 1) -> float:
        """The share of tests that passed, in [0, 1]. A skipped test has not passed.

        ``least``: how many tests there are at least: where fewer are reported, the others have failed.
        """
        return len(self.passed) / max(self.total, least, 1)


def read_junit(text: str) -> TestReport:
    """The report in the text; raises FileFormatError where it is none."""
    if "<!DOCTYPE" in text or "<!ENTITY" in text:
        raise FileFormatError("a JUnit report has no document type and no entities")
    try:
        root = ET.fromstring(text)  # without entities there is nothing to expand
    except (ET.ParseError, ValueError) as exc:
        raise FileFormatError(f"this is no JUnit report: {exc}; it is XML with testsuite elements") from exc
    if root.tag not in ("testsuites", "testsuite"):
        raise FileFormatError(f"a JUnit report begins with testsuites or testsuite, got {root.tag!r:.200}")
    results: dict[str, list[str]] = {"passed": [], "failed": [], "skipped": []}
    for case in root.iter("testcase"):
        kinds = {child.tag for child in case}
        result = "failed" if kinds & {"failure", "error"} else "skipped" if "skipped" in kinds else "passed"
        results[result].append(".".join(filter(None, (case.get("classname"), case.get("name")))))
    return TestReport(*(tuple(names) for names in results.values()))
