"""Datasets composed: dataset plans and `composition:` in workflow files, both to the one model of `workflow.model`."""
