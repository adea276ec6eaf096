def item(number):
    return {"Text": f"item {number}\n"}


def total(texts, word):
    return {"All": word + "\n" + "".join(text if isinstance(text, str) else text.read_text() for text in texts)}
