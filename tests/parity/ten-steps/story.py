import csv
import os
import signal
import sys


def tell(text, top):
    words = text.read_text().split()
    print("a tale of", top)
    return {"Tale": " ".join(word.upper() if word == top else word for word in words) + "\n", "Note": {"top": top}}


def risky(how, rows, context):
    if how == "death":
        print("about to die", file=sys.stderr, flush=True)
        os.kill(os.getpid(), signal.SIGKILL)
    if how == "step":
        (context.work_dir / "half.txt").write_text("half of it\n")
        print("about to fail", file=sys.stderr)
        try:
            {}["firm"]
        except KeyError as problem:
            raise ValueError(f"cannot go on with {rows} rows") from problem
    return {"Done": f"{rows} rows were fine"}


def report(tables, tale, done, firms, context):
    folder = context.output("Folder")
    (folder / "tables").mkdir(parents=True)
    read = 0
    for number, table in enumerate(tables):
        (folder / "tables" / f"{number}.csv").write_bytes(table.read_bytes())
        with table.open(newline="") as file:
            read += len(list(csv.DictReader(file)))
    (folder / "tale.txt").write_text(tale.read_text())
    (folder / "index.txt").write_text(f"{done}\n{len(firms.read_text().splitlines()) - 1} firms\n")
    (folder / "raw.bin").write_bytes(bytes(range(256)))
    context.metric("rows_read", read, "rows")
    context.metric("share", read / 7)
