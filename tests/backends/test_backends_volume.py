"""Steps with very many or invalid messages: none is lost or reordered, and the host needs little memory."""

from __future__ import annotations

import hashlib
from collections.abc import Callable

from backends_lab import BackendLab, Ended

from whyrun.log import events as ev

Make = Callable[..., BackendLab]

WORKFLOW = """
    workflow: much
    jobs:
      Small:
        uses: python
        with: {call: "much:small"}
        outputs: {Word: {type: string}}
      Print:
        needs: [Small]
        uses: python
        with: {call: "much:print_lines", count: 50000}
        outputs: {Digest: {type: string}}
      Endless:
        needs: [Small]
        uses: python
        with: {call: "much:endless", chunks: 320}
        outputs: {Digest: {type: string}}
      Bytes:
        needs: [Small]
        uses: shell
        with: {code: "${{ jobs.Code.outputs.Code }}", run: 'python3 "$code"; echo done > "$out_Word"'}
        outputs: {Word: {type: text}}
      Code:
        needs: [Small]
        uses: python
        with: {call: "much:code"}
        outputs: {Code: {type: text}}
      Tasks:
        needs: [Small]
        uses: python
        with: {call: "much:tasks", count: 20000}
        outputs: {Count: {type: integer}}
      Traceback:
        needs: [Small]
        uses: python
        with: {call: "much:fall", depth: 40}
        outputs: {Never: {type: string}}
"""
CODE = r'''
    import hashlib
    import os
    import sys

    def small():
        return {"Word": "small"}

    def print_lines(count):
        """Both streams; each has its own order."""
        digest = hashlib.sha256()
        for n in range(count):
            line = f"{n:08d} " + "größer·" * 125
            print(line)
            digest.update(line.encode() + b"\n")
            if n % 1000 == 0:
                print(f"{n} lines", file=sys.stderr)
        return {"Digest": digest.hexdigest()}

    def endless(chunks):
        """20 MB, and not one end of a line."""
        digest = hashlib.sha256()
        for n in range(chunks):
            data = (b"%06d" % n) * 10923
            digest.update(data)
            while data:
                data = data[os.write(1, data):]
        return {"Digest": digest.hexdigest()}

    def code():
        """Every byte there is, in an order that repeats only after a long while."""
        return {"Code": """if True:
            import sys
            for n in range(4000):
                sys.stdout.buffer.write(bytes((i * (2 * n + 1)) % 256 for i in range(256)))
            sys.stderr.buffer.write(bytes(range(128, 256)) * 1000)
        """}

    def tasks(count, context):
        for n in range(count):
            context.task("EXECUTES", f"part {n} “of many”" + "·" * (n % 97), {"n": n})
        return {"Count": count}

    def fall(depth):
        if depth:
            fall(depth - 1)
        raise ValueError("\n".join(f"{n:06d} is wrong, größer than it may be" for n in range(30000)))
'''

GROWTH = 128 << 20  # bytes: what a host may need more while its steps print 90 MB


def digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def check_printed(lab: BackendLab, ended: Ended) -> None:
    printed = "".join(f"{n:08d} " + "größer·" * 125 + "\n" for n in range(50000)).encode()
    assert len(printed) > 50_000_000
    assert digest(ended.file("steps/Print/stdout.log")) == digest(printed) == lab.content("Artifact:Print.Digest")
    assert ended.file("steps/Print/stderr.log").decode() == "".join(f"{n} lines\n" for n in range(0, 50000, 1000))


def check_endless(lab: BackendLab, ended: Ended) -> None:
    endless = b"".join((b"%06d" % n) * 10923 for n in range(320))
    assert len(endless) > 20_000_000
    assert digest(ended.file("steps/Endless/stdout.log")) == digest(endless) == lab.content("Artifact:Endless.Digest")


def check_bytes(ended: Ended) -> None:
    every = b"".join(bytes((i * (2 * n + 1)) % 256 for i in range(256)) for n in range(4000))
    assert digest(ended.file("steps/Bytes/stdout.log")) == digest(every)
    assert ended.file("steps/Bytes/stderr.log") == bytes(range(128, 256)) * 1000


def check_tasks(ended: Ended) -> None:
    told = [(e.step_id, e.status, e.message, e.details) for e in ended.of(ev.Task)]
    assert told == [("Job:Tasks", "EXECUTES", f"part {n} “of many”" + "·" * (n % 97), {"n": n}) for n in range(20000)]


def check_traceback(ended: Ended) -> None:
    (failed,) = ended.of(ev.StepFailed)
    message = "\n".join(f"{n:06d} is wrong, größer than it may be" for n in range(30000))
    assert (failed.step_id, failed.status, failed.error_type) == ("Job:Traceback", "FAILED", "ValueError")
    # Of the error the beginning and the end; the traceback has it whole.
    assert failed.error.startswith(message[:4000])
    assert failed.error.endswith(message[-4000:])
    assert len(failed.traceback.encode()) > 1_000_000
    assert failed.traceback.endswith(f"ValueError: {message}\n")
    assert failed.traceback.startswith("Traceback (most recent call last):\n")


def test_lesson_26_much_is_kept_whole_and_in_order_and_the_host_stays_small(backend: str, on_backend: Make) -> None:
    """Events lost because stdout chunks were not reassembled to lines."""
    lab = on_backend(WORKFLOW, {"much.py": CODE})
    running = lab.start("--quiet", "--jobs", "2")
    running.wait_for(lambda: any(event["event"] == "step_complete" for event in lab.log()), "the first step's end")
    before = running.look()
    ended = running.ended()
    assert ended.code == 1, ended.said
    check_printed(lab, ended)
    check_endless(lab, ended)
    check_bytes(ended)
    check_tasks(ended)
    check_traceback(ended)
    assert ended.completed == [f"Job:{name}" for name in ("Bytes", "Code", "Endless", "Print", "Small", "Tasks")]
    assert [e.seq for e in ended.events] == list(range(1, len(ended.events) + 1))
    grown = ended.peak - before
    print(f"{backend}: the host had {before >> 20} MB when the first step had ended, and {grown >> 20} MB more at most")
    assert grown < GROWTH
