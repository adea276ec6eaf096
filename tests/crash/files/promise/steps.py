import os
import signal
from pathlib import Path

HERE = Path(__file__).parent


def note(word):
    with (HERE / "notes.log").open("a") as file:
        file.write(f"{word}\n")


def parent_of(process):
    return int(Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[1])


def old():
    return {"Text": "old\n"}


def mine():
    return {"Text": "made\n"}


def paid(context):
    """Pays for what it cannot get twice, and ends its host once it knows that this is remembered."""
    request = context.recall("request")
    if request is None:
        note("paid")
        context.remember("request", "number one")
        note("went on")
        os.kill(parent_of(os.getppid()), signal.SIGKILL)  # the parent of its worker
        os._exit(0)
    return {"Text": f"{request}\n"}
