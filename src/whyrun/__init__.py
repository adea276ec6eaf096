"""Whyrun: workflows whose steps are slow or paid for. Re-run exactly what is needed, and say exactly why."""

from __future__ import annotations

__version__ = "0.1.0"
