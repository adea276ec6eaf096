import json
import os
from pathlib import Path

PAID = Path(__file__).parent / "paid.log"


def pay(step, word):
    """Every execution costs: it stands in this file, which no power cut of the tests touches."""
    descriptor = os.open(PAID, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.write(descriptor, f"{step} {word}\n".encode())
    os.close(descriptor)


def text(word, context):
    pay("Text", word)
    print("a text about", word)
    lines = "".join(f"{word} {n}\n" for n in range(600))  # more than one page
    context.output("Text").write_text(lines)
    return {"Length": len(lines)}


def tree(many, word, context):
    pay("Tree", word)
    folder = context.output("Tree")
    (folder / "deep").mkdir(parents=True)
    (folder / "empty").mkdir()
    (folder / "deep" / "all.txt").write_text(word + "".join(file.read_text() for file in many))
    (folder / "word.txt").write_text(word)
    return {}


def section(text, context):
    content = text.read_text() if hasattr(text, "read_text") else json.dumps(text, sort_keys=True)
    pay("Section", len(content))
    return {"Data": {"length": len(content), "numbers": list(range(len(content) % 50))}}


def last(length, tree, data, context):
    pay("Last", length)
    return {"Report": {"Sum": length + len((tree / "deep" / "all.txt").read_text()), "data": data}}
