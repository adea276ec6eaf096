"""Where steps execute. Each place is a module here, imported only where it is used."""

NAMES = ("local", "sandbox", "e2b", "dask")
