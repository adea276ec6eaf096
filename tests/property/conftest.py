"""How long the property tests look: the same quick cases every time, or with WHYRUN_SOAK=1 new ones for long."""

from __future__ import annotations

import os

from hypothesis import HealthCheck, settings

_HEALTH = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.large_base_example]
settings.register_profile("quick", deadline=None, database=None, print_blob=True, suppress_health_check=_HEALTH)
settings.register_profile("soak", parent=settings.get_profile("quick"), derandomize=False)
settings.load_profile("soak" if os.environ.get("WHYRUN_SOAK") else "quick")
