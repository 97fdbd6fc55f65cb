"""Findings as JUnit XML, which build servers show as tests: one test case for each finding, one suite for each kind.

BROKEN is a failure, UNKNOWN an error. What does not count, a warning or something known or ignored, is skipped with the
reason: so failures and errors are there exactly when the exit code is not 0.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING
from xml.etree import ElementTree as ET

if TYPE_CHECKING:
    from semel.check.report import Report
    from semel.check.rule import Finding

# XML 1.0 has no way to write these.
_FORBIDDEN = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def as_junit(report: Report) -> str:
    """The document, with its declaration."""
    kinds: dict[str, list[Finding]] = {}
    for one in report.findings:
        kinds.setdefault(one.subject.partition(" ")[0], []).append(one)
    root = ET.Element("testsuites", name="semel check")
    suites = [_suite(root, kind, found) for kind, found in kinds.items()]
    if not suites:
        suites = [_nothing(root)]
    for name in ("tests", "failures", "errors", "skipped"):
        root.set(name, str(sum(int(suite.get(name, "0")) for suite in suites)))
    ET.indent(root)
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + ET.tostring(root, encoding="unicode")


def _suite(root: ET.Element, kind: str, findings: list[Finding]) -> ET.Element:
    suite = ET.SubElement(root, "testsuite", name=f"semel.check.{kind}", tests=str(len(findings)))
    for one in findings:
        _case(suite, one)
    for name, tag in (("failures", "failure"), ("errors", "error"), ("skipped", "skipped")):
        suite.set(name, str(len(suite.findall(f"testcase/{tag}"))))
    return suite


def _nothing(root: ET.Element) -> ET.Element:
    """A run that judged nothing has shown nothing: that is an error, not an empty success."""
    suite = ET.SubElement(root, "testsuite", name="semel.check", tests="1", failures="0", errors="1", skipped="0")
    case = ET.SubElement(suite, "testcase", classname="semel.check", name="something was judged")
    ET.SubElement(case, "error", message="nothing was judged", type="UNKNOWN")
    return suite


def _case(suite: ET.Element, finding: Finding) -> None:
    from semel.check.report import why_not_counted

    kind = finding.subject.partition(" ")[0]
    case = ET.SubElement(
        suite,
        "testcase",
        classname=f"semel.check.{kind}.{finding.rule}",
        name=_clean(f"{finding.rule} {finding.title}: {finding.subject}"),
    )
    if finding.file:
        case.set("file", _clean(finding.file))
        case.set("line", str(max(1, finding.line)))
    reason = why_not_counted(finding)
    if reason:
        ET.SubElement(case, "skipped", message=_clean(f"{reason}; {finding.verdict}: {finding.found}"))
    elif finding.verdict != "HELD":
        tag = "failure" if finding.verdict == "BROKEN" else "error"
        told = ET.SubElement(case, tag, message=_clean(finding.found), type=finding.verdict.value)
        told.text = _clean(f"severity {finding.severity}\nrequires {finding.requires}\nfix      {finding.fix}\n")


def _clean(text: str) -> str:
    return _FORBIDDEN.sub("\ufffd", text)
