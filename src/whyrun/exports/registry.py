"""The table of export formats, and the one way from a run to bytes: render, then refuse what has a secret in it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING

from whyrun.errors import WhyrunError, error
from whyrun.exports.record import Rendered

if TYPE_CHECKING:
    from whyrun.connections.redact import Redactor
    from whyrun.exports.reading import RunSubject
    from whyrun.project import Project


@dataclass(frozen=True, slots=True)
class Format:
    """`module` is in `formats/` and has `render(subject) -> Rendered`."""

    name: str
    module: str
    what: str
    options: tuple[str, ...] = ()  # those of a subject that it reads
    is_folder: bool = False


_ROWS = (
    Format("junit", "junit", "test results (XML): one case a step, with failures and differences", ("verify",)),
    Format("markdown", "markdown", "a summary for a merge request or a lab book", ("link",)),
    Format("github", "github", "a job summary and annotations for GitHub Actions", ("link",)),
    Format("chrome-trace", "chrome_trace", "a timeline for speedscope, Perfetto or chrome://tracing"),
    Format("prometheus", "prometheus", "the present state as metrics, for a textfile collector"),
    Format("openlineage", "openlineage", "lineage as OpenLineage run events, one JSON object a line", ("namespace",)),
    Format(
        "ro-crate", "ro_crate", "a research object crate: the workflow, what ran, and the bytes; a folder",
        ("metadata_only",), is_folder=True,
    ),
    Format("otel", "otel", "a trace for OpenTelemetry: an OTLP request in protobuf"),
)  # fmt: skip
FORMATS: Mapping[str, Format] = {row.name: row for row in _ROWS}


def export(subject: RunSubject, name: str) -> Rendered:
    """A run in this format. SECRET_IN_REPORT if a known secret is in it."""
    rendered: Rendered = import_module(f"whyrun.exports.formats.{FORMATS[name].module}").render(subject)
    secrets = known_secrets_of(subject.project)
    if secrets and (_has_one(secrets, rendered) or secrets.found_in("\n".join(rendered.folder).encode())):
        hint = "prune the run that recorded it: `whyrun runs prune`"
        raise error("SECRET_IN_REPORT", f"a secret of this workflow is in what `{name}` would show", hint=hint)
    return rendered


def _has_one(secrets: Redactor, rendered: Rendered) -> bool:
    for part in (rendered.data, rendered.said, rendered.printed or b"", *rendered.folder.values()):
        if isinstance(part, bytes):
            if secrets.found_in(part):
                return True
            continue
        with open(part, "rb") as file:
            if secrets.found_in_file(file):
                return True
    return False


def known_secrets_of(project: Project) -> Redactor:
    """The secrets of the present workflow. A workflow that is invalid by now names none; its logs have none either."""
    from whyrun.connections.redact import NOTHING_SECRET, Redactor
    from whyrun.execution.dispatch.run_secrets import known_secrets

    try:
        graph = project.graph
    except WhyrunError:
        return NOTHING_SECRET
    return Redactor(known_secrets(project, graph))
