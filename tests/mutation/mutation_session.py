"""The pytest plugin that runs the mutants instead of the tests, and the notes it keeps between runs."""

from __future__ import annotations

import argparse
import ast
import hashlib
import json
import os
import resource
import shutil
import subprocess
import sys
import time
import tomllib
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from forked import KILLED, SURVIVED, TIMED_OUT, UNCOVERED, Verdict, code_of, live_functions, try_tests
from forked_command import stand_in
from mutants import MODULE, Mutant, mutants_of
from traced import Tracer

HERE = Path(__file__).resolve().parent
EXPLAINED = "explained"
COLD = 200  # tests at most for what runs at import: each try is a process that collects them anew


class Source:
    """A mutated file: its tree, its mutants, the digests of its functions."""

    def __init__(self, path: Path, name: str) -> None:
        text = path.read_text()
        self.path, self.name = path, name
        self.tree, self.mutants = mutants_of(text, name)
        lines = text.splitlines()
        self.functions: list[tuple[int, int, str]] = list(_functions(self.tree, ""))
        self.digests = {
            function: hashlib.sha256("\n".join(lines[first - 1 : last]).encode()).hexdigest()[:12]
            for first, last, function in self.functions
        }


def _functions(owner: ast.Module | ast.ClassDef, prefix: str) -> Iterator[tuple[int, int, str]]:
    for node in owner.body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            first = min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])
            yield first, node.end_lineno or first, prefix + node.name
        elif isinstance(node, ast.ClassDef):
            yield from _functions(node, f"{prefix}{node.name}.")


class Mutation:
    """`pytest.main([…], [Mutation(…)])`; `verdict` is the exit status."""

    def __init__(self, root: Path, areas: Sequence[str], chosen: argparse.Namespace) -> None:
        self.root, self.chosen = root, chosen
        self.notes: Path = chosen.notes.resolve()
        self.notes.mkdir(exist_ok=True)
        base = Path("/dev/shm") if os.access("/dev/shm", os.W_OK) else self.notes
        self.scratch = base / f"mutation-{os.getpid()}"
        self.verdict: int | None = None
        package = root / "src" / "whyrun"
        self.sources = {
            name: Source(path, name)
            for area in ("planning", "log", "snapshot")
            for path in sorted((package / area).glob("*.py"))
            for name in [f"{area}/{path.name}"]
        }
        self.wanted = [
            source
            for source in self.sources.values()
            if source.name.split("/")[0] in areas and (not chosen.file or source.name in chosen.file)
        ]
        self.results: dict[str, dict[str, Any]] = {} if chosen.again else _load(self.notes / "results.json")
        self.explained = explanations()

    # --- pytest -----------------------------------------------------------------------------------------------------

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        self.items = {item.nodeid: item for item in session.items}
        if "cli_lab" in sys.modules:
            stand_in(sys.modules["cli_lab"], Tracer.spill)
        try:
            self.known = self._measured()
            self._try_all()
            self.verdict = self._report()
        finally:
            shutil.rmtree(self.scratch, ignore_errors=True)
        return True

    # --- which test runs what ---------------------------------------------------------------------------------------

    def _measured(self) -> dict[str, dict[str, Any]]:
        kept = _load(self.notes / "tests.json")
        stamps: dict[Path, str] = {}
        by_file: dict[Path, list[pytest.Item]] = {}
        for item in self.items.values():
            stamp = stamps.setdefault(item.path, hashlib.sha256(item.path.read_bytes()).hexdigest()[:12])
            if kept.get(item.nodeid, {}).get("stamp") != stamp:
                by_file.setdefault(item.path, []).append(item)
        for path, items in by_file.items():
            found = self._measure(items)
            for nodeid, record in found.items():
                kept[nodeid] = {"stamp": stamps[path], **record}
            lost = [item.nodeid for item in items if item.nodeid not in found]
            bad = [nodeid for nodeid, record in found.items() if not record["passed"]] + lost
            for nodeid in lost:
                kept[nodeid] = {"stamp": stamps[path], "passed": False, "seconds": 0.0, "lines": {}}
            total = sum(record["seconds"] for record in found.values())
            tell(f"measured {path.relative_to(self.root)}: {len(found)} tests, {total:.1f} s; not usable: {bad}")
            _save(self.notes / "tests.json", kept)
        # A kill by a test that was not chosen this time still counts, as long as the test is there.
        self.noted = {test for test, note in kept.items() if note["passed"] and self._is_there(test)}
        return {nodeid: kept[nodeid] for nodeid in self.items if kept[nodeid]["passed"]}

    def _is_there(self, test: str) -> bool:
        return test in self.items or (self.root / test.partition("::")[0]).exists()

    def _measure(self, items: list[pytest.Item]) -> dict[str, dict[str, Any]]:
        out = self.notes / "measuring.jsonl"
        out.write_text("")
        files = {str(source.path): name for name, source in self.sources.items()}
        functions = {name: source.functions for name, source in self.sources.items()}

        def watch() -> None:
            manager = items[0].config.pluginmanager
            watcher = _Watcher(out, lambda: Tracer(files, functions, self.notes), self.sources)
            manager.register(watcher)

        try_tests(items, [120.0] * len(items), watch)
        return {record.pop("nodeid"): record for record in map(json.loads, out.read_text().splitlines())}

    # --- the mutants ------------------------------------------------------------------------------------------------

    def _try_all(self) -> None:
        self.killers: dict[tuple[str, str], Counter[str]] = {}
        for name in self.sources:  # one that is imported later would come unchanged
            import_module("whyrun." + name.removesuffix(".py").replace("/", "."))
        live = live_functions(frozenset(str(source.path) for source in self.sources.values()))
        for name, result in self.results.items():
            if result.get("by"):
                file, function, *_ = name.split("\0")
                self.killers.setdefault((file, function), Counter())[result["by"]] += 1
        for source in self.wanted:
            began, seen = time.monotonic(), Counter[str]()
            for mutant in sorted(source.mutants, key=lambda each: each.function == MODULE):
                name = result_name(mutant)
                digest = source.digests.get(mutant.function, "")
                old = self.results.get(name)
                tests = self._tests_for(source, mutant)
                tried = _digest([f"{test} {self.known[test]['stamp']}" for test in tests])
                if old is not None and old["digest"] == digest and self._still(old, tried):
                    seen[old["how"]] += 1
                    continue
                if mutant.key in self.explained and not self.chosen.explained:
                    seen[EXPLAINED] += 1
                    continue
                if mutant.function == MODULE and self.chosen.warm:
                    continue
                if self.chosen.survivors and (old is None or old["how"] in (KILLED, TIMED_OUT)):
                    continue
                verdict = self._try(source, mutant, live, tests)
                seen[verdict.how] += 1
                self.results[name] = {"how": verdict.how, "by": verdict.by, "digest": digest, "tried": tried}
                if verdict.how == SURVIVED or verdict.how == UNCOVERED:
                    mark = EXPLAINED if mutant.key in self.explained else verdict.how
                    tell(f"  {mark}: {source.name}:{mutant.line} {mutant.function}: {mutant.was}  =>  {mutant.now}")
                if verdict.by:
                    self.killers.setdefault((source.name, mutant.function), Counter())[verdict.by] += 1
                if len(self.results) % 20 == 0:
                    _save(self.notes / "results.json", self.results)
            _save(self.notes / "results.json", self.results)
            tell(f"{source.name}: {len(source.mutants)} mutants, {dict(seen)}, {time.monotonic() - began:.0f} s")

    def _still(self, old: dict[str, Any], tried: str) -> bool:
        """A kill holds as long as its test is there, a survival as long as no other tests are to be tried."""
        return old["by"] in self.noted if old["how"] in (KILLED, TIMED_OUT) else old.get("tried") == tried

    def _try(self, source: Source, mutant: Mutant, live: dict[Any, Any], tests: list[str]) -> Verdict:
        if not tests:
            return Verdict(UNCOVERED)
        mutant.apply()
        try:
            if mutant.function == MODULE:
                return self._cold(source, tests[:COLD])
            module = compile(source.tree, str(source.path), "exec")
        finally:
            mutant.revert()
        code = code_of(module, mutant.function, mutant.first_line)
        functions = live[str(source.path), mutant.function, mutant.first_line]
        assert code is not None

        def change() -> None:
            for function in functions:
                function.__code__ = code

        return try_tests([self.items[test] for test in tests], [self.known[test]["seconds"] for test in tests], change)

    def _cold(self, source: Source, tests: list[str]) -> Verdict:
        """What runs at import is tried in a process of its own, which imports the changed file."""
        changed = self.notes / "changed.py"
        changed.write_text(ast.unparse(source.tree))
        module = "whyrun." + source.name.removesuffix(".py").replace("/", ".")
        command = [sys.executable, str(HERE / "cold.py"), module, str(source.path), str(changed), *tests]
        try:
            done = subprocess.run(command, cwd=self.root, capture_output=True, timeout=300)
        except subprocess.TimeoutExpired:
            return Verdict(TIMED_OUT, tests[0])
        by = next((line[7:] for line in done.stdout.decode().splitlines() if line.startswith("failed ")), tests[0])
        return Verdict(SURVIVED) if done.returncode == 0 else Verdict(KILLED, by)

    def _tests_for(self, source: Source, mutant: Mutant) -> list[str]:
        """Those that run the changed line: first who killed others in this function, then the quickest."""
        killers = dict(self.killers.get((source.name, mutant.function), Counter()).most_common(3))
        site = mutant.site
        first = min(getattr(site.old, "lineno", mutant.line), mutant.line)
        if isinstance(site.old, ast.expr):
            first = min(first, getattr(site.path[0], "lineno", first))
        if isinstance(site.old, ast.Continue | ast.Break):
            first -= 1  # a mere jump may be no line of its own
        last = max(getattr(site.old, "end_lineno", None) or first, first)
        wanted = set(range(first - mutant.first_line, last - mutant.first_line + 1))
        place = f"{source.name}::{mutant.function}"
        digest = source.digests.get(mutant.function, "")
        found = []
        for test, record in self.known.items():
            if mutant.function == MODULE:
                runs = any(name.startswith(source.name) for name in record["lines"]) or self._names(test, source)
            else:
                lines = record["lines"].get(place)
                runs = lines is not None and (lines[0] != digest or not wanted.isdisjoint(lines[1:]))
            if runs:
                found.append(test)
        own = f"tests/{source.name.partition('/')[0]}/"
        if not found:  # a function that is newer than what is known of the tests, or a file without any
            found = [test for test in self.known if test.startswith(own)]
        # The files of tests take turns, so that each has had the same time: the tests of one mostly notice the same.
        found.sort(key=lambda test: self.known[test]["seconds"])
        spent: dict[str, float] = {}
        turn: dict[str, float] = {}
        for test in found:
            file = test.partition("::")[0]
            turn[test] = spent[file] = spent.get(file, 0.0) + self.known[test]["seconds"]
        # The tests of the package itself are likelier to notice.
        found.sort(key=lambda test: (-killers.get(test, 0), turn[test] / (5 if own in test else 1), test))
        budget, chosen = self.chosen.budget, []
        for test in found:
            budget -= self.known[test]["seconds"]
            chosen.append(test)
            if budget < 0:
                break
        return chosen

    def _names(self, test: str, source: Source) -> bool:
        """Whether the file of a test imports this one: it may make its records and call none of its functions."""
        module = "whyrun." + source.name.removesuffix(".py").replace("/", ".")
        return f"from {module} import" in _text(self.root / test.partition("::")[0])

    # --- the report -------------------------------------------------------------------------------------------------

    def _report(self) -> int:
        open_ones = 0
        used: set[tuple[str, str, str, str]] = set()
        tell("\npackage     mutants   killed  timed out  explained   open   score")
        for area in sorted({source.name.split("/")[0] for source in self.wanted}):
            seen = Counter[str]()
            for source in self.wanted:
                for mutant in source.mutants if source.name.startswith(area + "/") else ():
                    how = self.results.get(result_name(mutant), {"how": "untried"})["how"]
                    if how not in (KILLED, TIMED_OUT) and mutant.key in self.explained:
                        used.add(mutant.key)
                        how = EXPLAINED
                    seen[how] += 1
            total, dead = seen.total(), seen[KILLED] + seen[TIMED_OUT]
            left = total - dead - seen[EXPLAINED]
            open_ones += left
            score = 100 * dead / max(1, total - seen[EXPLAINED])
            tell(
                f"{area:10} {total:8} {seen[KILLED]:8} {seen[TIMED_OUT]:10} {seen[EXPLAINED]:10} {left:6} {score:6.1f}%"
            )
        wanted = {source.name for source in self.wanted}
        for file, function, was, now in sorted(key for key in self.explained.keys() - used if key[0] in wanted):
            tell(f"explained, but killed or gone: {file} {function}: {was}  =>  {now}")
        return 1 if open_ones else 0


class _Watcher:
    """A plugin that traces each test of a child and writes what it ran."""

    def __init__(self, out: Path, tracer: Any, sources: dict[str, Source]) -> None:
        self.out, self.make_tracer, self.sources = out, tracer, sources
        self.passed = True

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.outcome != "passed":
            self.passed = False

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Any:
        self.passed = True
        began = _processor_time()
        with self.make_tracer() as tracer:
            yield
        record = {
            "nodeid": item.nodeid,
            "passed": self.passed,
            "seconds": round(_processor_time() - began, 4),
            "lines": {
                f"{file}::{function}": [self.sources[file].digests[function], *sorted(lines)]
                for (file, function), lines in sorted(tracer.lines.items())
            },
        }
        with self.out.open("a") as file:
            file.write(json.dumps(record) + "\n")
        # A failure of one test must not end the measuring of the others.
        for plugin in item.config.pluginmanager.get_plugins():
            if type(plugin).__name__ == "FirstFailure":
                plugin.failed = False
        return True


def _processor_time() -> float:
    """Of this process and its children: it depends less on who else works on the machine than a clock."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(each.ru_utime + each.ru_stime for each in used)


def explanations() -> dict[tuple[str, str, str, str], str]:
    """survivors.toml: (file, function, was, now) → why no test kills it."""
    path = HERE / "survivors.toml"
    read = tomllib.loads(path.read_text()) if path.exists() else {}
    return {(s["file"], s["function"], s["was"], s["now"]): s["why"] for s in read.get("survivor", [])}


@cache
def _text(path: Path) -> str:
    return path.read_text()


def _digest(texts: Sequence[str]) -> str:
    return hashlib.sha256("\n".join(sorted(texts)).encode()).hexdigest()[:12]


def result_name(mutant: Mutant) -> str:
    return "\0".join((*mutant.key, str(mutant.nth)))


def tell(text: str) -> None:
    print(text, file=sys.__stderr__, flush=True)


def _load(path: Path) -> Any:
    return json.loads(path.read_text()) if path.exists() else {}


def _save(path: Path, value: object) -> None:
    new = path.with_suffix(".new")
    new.write_text(json.dumps(value))
    new.replace(path)
