"""The action `http/json`: requests to web services, with retries and polling.

In: the parameters of `params.py`. Out: the answer as JSON, or a downloaded file. `http_json.py` is the action; it sends
and reads answers through `exchange.py`, and remembers paid requests in `submission.py`. Start with
`http_json.py`.
"""
