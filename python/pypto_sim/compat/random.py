"""Random numbers of `torch.npu`: the CPU's generator draws them."""
from __future__ import annotations

from typing import Any

import torch

from .factories import device_count


def manual_seed(seed: int) -> None:
    """Seeds the CPU's generator, which draws for the NPU too."""
    torch.default_generator.manual_seed(int(seed))         # torch.manual_seed itself calls that of torch.cuda


manual_seed_all = manual_seed


def seed() -> None:
    """Seeds with a new number."""
    torch.default_generator.seed()


seed_all = seed


def initial_seed() -> int:
    """Seed of the CPU's generator."""
    return torch.initial_seed()


def get_rng_state(device: Any = None) -> torch.Tensor:
    """State of the CPU's generator."""
    return torch.get_rng_state()


def set_rng_state(new_state: torch.Tensor, device: Any = None) -> None:
    """Set the state of the CPU's generator."""
    torch.set_rng_state(new_state)


def get_rng_state_all() -> list[torch.Tensor]:
    """One state per device."""
    return [get_rng_state() for _ in range(device_count())]


def set_rng_state_all(new_states: Any) -> None:
    """Set the state from the first."""
    set_rng_state(new_states[0])
