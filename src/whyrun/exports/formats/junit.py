"""Test results in the XML of JUnit: one suite a run, one case a step; and one of what `whyrun verify` checks. Pure.

A step that failed, timed out or differs is a failure. One that was interrupted or never started in a run that did not
succeed is an error. What was reused, skipped, blocked or held back is skipped.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from xml.sax.saxutils import escape, quoteattr

from whyrun.exports.record import Rendered, RunRecord, Step, Subject

_FAILURES = ("failed", "timed_out", "different")
_ERRORS = ("interrupted", "running")
_SKIPPED = ("reused", "skipped", "blocked", "held", "kept", "adopted")
RUN_CASE = "the run itself"


def render(subject: Subject) -> Rendered:
    return Rendered(junit(subject.record(), subject.checks()))


def junit(record: RunRecord, checks: Mapping[str, list[str]] | None = None) -> bytes:
    """`checks`: what `whyrun verify` checks, with the problems of each; they are a suite of their own."""
    suites = [_steps(record)]
    if checks is not None:
        suites.append(_checks(record, checks))
    totals = {
        name: sum(suite.numbers()[name] for suite in suites) for name in ("tests", "failures", "errors", "skipped")
    }
    head = ['<?xml version="1.0" encoding="UTF-8"?>', f'<testsuites name="whyrun" {_numbers(totals, record)}>']
    lines = [line for suite in suites for line in suite.lines(record)]
    return "\n".join([*head, *lines, "</testsuites>"]).encode() + b"\n"


def _numbers(numbers: Mapping[str, int], record: RunRecord) -> str:
    return " ".join([f'time="{record.duration or 0.0:.3f}"', *(f'{name}="{value}"' for name, value in numbers.items())])


@dataclass
class _Suite:
    name: str
    properties: Mapping[str, str]
    kinds: list[str] = field(default_factory=list)  # of each case: failure, error, skipped, or empty if it passed
    cases: list[str] = field(default_factory=list)  # lines

    def numbers(self) -> dict[str, int]:
        kinds = {"failures": "failure", "errors": "error", "skipped": "skipped"}
        return {"tests": len(self.kinds), **{name: self.kinds.count(kind) for name, kind in kinds.items()}}

    def lines(self, record: RunRecord) -> Iterator[str]:
        numbers = _numbers(self.numbers(), record)
        yield f'<testsuite name={quoteattr(self.name)} timestamp="{record.started[:19]}" {numbers}>'
        yield "  <properties>"
        for name, value in self.properties.items():
            yield f"    <property name={quoteattr(name)} value={quoteattr(value)}/>"
        yield "  </properties>"
        yield from self.cases
        yield "</testsuite>"


def _steps(record: RunRecord) -> _Suite:
    properties = {
        "run": record.run, "mode": record.mode, "state": record.state, "outcome": record.outcome,
        "unfinished": "true" if record.unfinished else "false", "backend": record.backend,
        "whyrun": record.engine_version, "up_to_date": str(record.up_to_date), "spent": record.spent().text(),
    } | ({"note": record.without_plan} if record.without_plan else {})  # fmt: skip
    suite = _Suite(f"{record.workflow} {record.run}", properties)
    for step in record.ordered():
        case = _Case(step, record)
        suite.kinds.append(case.kind)
        suite.cases += case.lines(record.workflow)
    problem = _run_problem(record, any(kind in ("failure", "error") for kind in suite.kinds))
    if problem is not None:
        suite.kinds.append("error")
        suite.cases += [
            f'  <testcase classname={quoteattr(record.workflow)} name={quoteattr(RUN_CASE)} time="0.000">',
            f"    <error message={quoteattr(problem)} type={quoteattr(record.state)}/>",
            "  </testcase>",
        ]
    return suite


def _checks(record: RunRecord, checks: Mapping[str, list[str]]) -> _Suite:
    suite = _Suite(f"{record.workflow} {record.run} verify", {"run": record.run})
    for kind, problems in checks.items():
        name = f"classname={quoteattr(f'{record.workflow}.verify')} name={quoteattr(kind)}"
        suite.kinds.append("failure" if problems else "")
        suite.cases.append(f'  <testcase {name} time="0.000"' + (">" if problems else "/>"))
        if problems:
            text = escape("\n".join(problems))
            about = f'message={quoteattr(problems[0])} type="Damaged"'
            suite.cases += [f"    <failure {about}>{text}</failure>", "  </testcase>"]
    return suite


def _run_problem(record: RunRecord, is_told: bool) -> str | None:
    """What is wrong with the run, if no case of a step says it."""
    if record.unfinished:
        return "the run is still going on" if record.state == "running" else "the log of the run has no end"
    if record.outcome == "interrupted" and not is_told:
        return record.error or "the run was interrupted"
    return (record.error or "the run failed") if record.outcome == "failed" and not is_told else None


class _Case:
    def __init__(self, step: Step, record: RunRecord) -> None:
        self.step = step
        self.kind = ""
        if step.status in _FAILURES:
            self.kind = "failure"
        elif step.status in _ERRORS or (step.status == "not_started" and record.state != "succeeded"):
            self.kind = "error"
        elif step.status in _SKIPPED or step.status == "not_started":
            self.kind = "skipped"

    def lines(self, workflow: str) -> Iterator[str]:
        step = self.step
        name = f"classname={quoteattr(f'{workflow}.{step.job}')} name={quoteattr(step.id)}"
        yield f'  <testcase {name} time="{step.seconds or 0.0:.3f}">'
        if self.kind:
            message, type_, text = self._problem()
            attributes = f"message={quoteattr(message)}" + (f" type={quoteattr(type_)}" if type_ else "")
            yield f"    <{self.kind} {attributes}" + (f">{escape(text)}</{self.kind}>" if text else "/>")
        about = [f"{code}  {text}".rstrip() for code, text in step.reasons]
        about += [
            f"attempt {one.number}: {one.error_type}: {one.error}" for one in step.attempts[:-1] if one.error_type
        ]
        if spent := step.spent().text():
            about.append(f"spent {spent}")
        if about:
            yield f"    <system-out>{escape(chr(10).join(about))}</system-out>"
        yield "  </testcase>"

    def _problem(self) -> tuple[str, str, str]:
        """Message, type and text of what is not a plain success."""
        step, last = self.step, self.step.last
        if step.status == "different":
            different = [one for one in step.compared if one.status == "DIFFERENT"]
            message = "; ".join(f"{one.artifact} differs from {one.against}: {one.summary}" for one in different)
            details = [f"{one.artifact}: {line}" for one in different for line in one.details]
            return message or "its outputs differ", "Different", "\n".join(details)
        if self.kind == "skipped":
            status = step.status.replace("_", " ")
            return f"{status}: {step.note}" if step.note else status, "", ""
        if last is not None and last.error_type:
            return last.error, last.error_type, last.traceback
        return step.note or step.status.replace("_", " "), step.status, ""
