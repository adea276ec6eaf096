def make(item, factor):
    return {"Value": f"{item * factor} "}


def join(values):
    return {"Total": "".join(path.read_text() for path in values)}
