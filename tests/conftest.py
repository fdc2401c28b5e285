"""What all tests share."""

from __future__ import annotations

from hypothesis import HealthCheck, settings
from tqdm import tqdm

settings.register_profile("unhurried", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("unhurried")  # how busy the machine is says nothing of what is tested

tqdm.monitor_interval = 0  # its thread, once a test has a bar drawn, would go on beside all later tests
