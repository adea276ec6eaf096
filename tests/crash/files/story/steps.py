import json
import time


def script(topic, parts):
    time.sleep(0.005)
    return {"Story": {"Title": topic, "Parts": [{"Wanted": i != 2} for i in range(parts)]}}


def count(text, topic):
    time.sleep(0.015)
    words = text.read_text().split()
    return {"Table": {"topic": topic, "words": len(words)}}


def link(before, part):
    time.sleep(0.01)
    data = before.read_text() if hasattr(before, "read_text") else json.dumps(before, sort_keys=True)
    return {"Link": f"{data}\nlink {part}\n"}


def final(merged, tables, tree):
    time.sleep(0.01)
    lines = merged.read_text().splitlines()
    tables = [json.loads(t.read_text()) if hasattr(t, "read_text") else t for t in tables]
    return {"Report": {"Lines": len(lines), "Tables": tables, "Size": (tree / "size.txt").read_text()}}
