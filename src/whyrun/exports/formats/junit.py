"""Test results in the XML of JUnit: one suite a run, one case a step. Pure.

A step that failed, timed out or differs is a failure. One that was interrupted or never started in a run that did not
succeed is an error. What was reused, skipped, blocked or held back is skipped.
"""

from __future__ import annotations

from collections.abc import Iterator
from xml.sax.saxutils import escape, quoteattr

from whyrun.exports.record import Rendered, RunRecord, Step, Subject

_FAILURES = ("failed", "timed_out", "different")
_ERRORS = ("interrupted", "running")
_SKIPPED = ("reused", "skipped", "blocked", "held", "kept", "adopted")
RUN_CASE = "the run itself"


def render(subject: Subject) -> Rendered:
    return Rendered(junit(subject.record()))


def junit(record: RunRecord) -> bytes:
    cases = [_Case(step, record) for step in record.ordered()]
    lines = [line for case in cases for line in case.lines(record.workflow)]
    problem = _run_problem(record, any(case.kind in ("failure", "error") for case in cases))
    if problem is not None:
        lines += [
            f'  <testcase classname={quoteattr(record.workflow)} name={quoteattr(RUN_CASE)} time="0.000">',
            f"    <error message={quoteattr(problem)} type={quoteattr(record.state)}/>",
            "  </testcase>",
        ]
    kinds = [case.kind for case in cases] + (["error"] if problem is not None else [])
    numbers = {
        "tests": len(kinds), "failures": kinds.count("failure"), "errors": kinds.count("error"),
        "skipped": kinds.count("skipped"),
    }  # fmt: skip
    attributes = " ".join(f'{name}="{number}"' for name, number in numbers.items())
    time = f"{record.duration or 0.0:.3f}"
    suite = f"{record.workflow} {record.run}"
    properties = {
        "run": record.run, "mode": record.mode, "state": record.state, "outcome": record.outcome,
        "unfinished": "true" if record.unfinished else "false", "backend": record.backend,
        "whyrun": record.engine_version, "up_to_date": str(record.up_to_date), "spent": record.spent().text(),
    }  # fmt: skip
    head = [
        '<?xml version="1.0" encoding="UTF-8"?>',
        f'<testsuites name="whyrun" time="{time}" {attributes}>',
        f'<testsuite name={quoteattr(suite)} timestamp="{record.started[:19]}" time="{time}" {attributes}>',
        "  <properties>",
        *(f"    <property name={quoteattr(name)} value={quoteattr(value)}/>" for name, value in properties.items()),
        "  </properties>",
    ]
    return "\n".join([*head, *lines, "</testsuite>", "</testsuites>"]).encode() + b"\n"


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
