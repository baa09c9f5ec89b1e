"""What a claim's experiment may use: runs and estimates of the comparison at hand, kept between claims."""
from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

import pypto_sim as pypto

from . import cost
from . import inputs as inputs_
from .base import DTYPES, Arg, Claim, Config, Launch, Observation, Strategy
from .check import Accuracy, Reason, check, collected, launch, run
from .complexity import complexity_of, declared_bytes, operations_of
from .outcomes import under_profile

if TYPE_CHECKING:
    from .comparison import Comparison


class Context:
    """Experiments of one comparison. Every number comes from a run or an estimate made here."""

    def __init__(self, comparison: Comparison, cache: inputs_.InputCache, goldens: list[dict[Any, Any]]) -> None:
        self._of, self._cache, self._goldens = comparison, cache, goldens
        self.device, self.model, self.preset = comparison.device, comparison.model, comparison.preset.name
        self._costs: dict[Any, tuple[dict[str, Any] | None, Reason | None]] = {}
        self._checks: dict[Any, Accuracy] = {}

    def observe(self, claim: Claim) -> Observation:
        """Run a claim's experiment; what stops it makes the outcome unknown, with the reason."""
        try:
            return claim.observe(self)
        except Exception as error:    # the experiment could not be carried out; that is what the report says
            text = str(error).splitlines()[0] if str(error) else ""
            return Observation("the experiment did not finish", None, f"{type(error).__name__}: {text}")

    # --- configs
    def sizes(self) -> list[dict[str, Any]]:
        """Sizes of the cost sweep."""
        from .comparison import cost_sizes
        return cost_sizes(self._of.preset, self._of.phase, self._of.user, False)

    def config(self, largest: bool = False, **changes: Any) -> Config:
        """Config of the check point, or of the largest cost point; `changes` override."""
        from .comparison import resolve
        size = self.sizes()[-1] if largest else self._of.preset.phases[self._of.phase].check[-1]
        return resolve(self._of.module, self._of.preset, self._of.phase, size, {**self._of.user, **changes})

    def strategy(self, name: str) -> Strategy:
        """Strategy by id."""
        return next(s for s in self._of.module.STRATEGIES if s.id == name)

    def dtype(self, name: str) -> Any:
        """pypto element type by short name."""
        return DTYPES[name]

    # --- cost
    def try_estimate(self, name: str, device: str | None = None,
                     **changes: Any) -> tuple[dict[str, Any] | None, Reason | None]:
        """Estimate at the largest cost point with changes, or why there is none."""
        key = name, device, tuple(sorted(changes.items()))
        if key not in self._costs:
            try:
                config = self.config(largest=True, **changes)
                self._costs[key] = cost.try_cost(self._of.module.OPERATOR, self.strategy(name), config, self.preset,
                                                 device or self.device, self.model)
            except ValueError as error:
                self._costs[key] = None, Reason("error", None, str(error), None)
        return self._costs[key]

    def estimate(self, name: str, device: str | None = None, **changes: Any) -> dict[str, Any]:
        """The same; raises when there is none."""
        found, reason = self.try_estimate(name, device, **changes)
        if found is None:
            assert reason is not None
            raise RuntimeError(f"{name} has no estimate: {reason.text.splitlines()[0]}")
        return found

    def cost_of(self, launches: Sequence[Launch], strategy: Strategy | None, config: Config,
                args: Mapping[str, Arg] | None = None, device: str | None = None) -> dict[str, Any]:
        """Estimate of given launches, on the tensors of a strategy or on given ones."""
        if args is None:
            assert strategy is not None
            args = inputs_.tensors(self._of.module.OPERATOR, strategy, config)
        return cost.launches_cost(launches, inputs_.specs(self.preset, args), device or self.device, self.model)

    # --- numerics
    def check(self, name: str, **changes: Any) -> Accuracy:
        """Accuracy at the check point with changes."""
        key = name, tuple(sorted(changes.items()))
        if key not in self._checks:
            known = {} if changes else self._goldens[-1]
            self._checks[key], _ = check(self._of.module, self.strategy(name), self.config(**changes), self.preset,
                                         self._cache, known)
        return self._checks[key]

    def outputs(self, name: str, **changes: Any) -> dict[str, np.ndarray] | None:
        """Tensors of a strategy after a run at the check point with changes."""
        try:
            config = self.config(**changes)
            return run(self._of.module.OPERATOR, self.strategy(name), config, self.preset, self._cache).tensors
        except Exception:    # the caller reports that it does not run
            return None

    def run_kernel(self, kernel: Any, names: Sequence[str], args: Mapping[str, Arg],
                   device: str | None = None) -> dict[str, np.ndarray] | None:
        """Tensors after one launch on seeded inputs, or None when it is refused."""
        arrays = inputs_.aliased({n: inputs_.draw(self.preset, n, a) for n, a in args.items()
                                  if a.role == "in" and not a.alias} | inputs_.outputs(args), args)
        with pypto.config(device=device or self.device):
            try:
                launch((Launch(kernel, tuple(names)),), arrays)
            except pypto.PyptoError:
                return None
        return arrays

    def call(self, kernel: Any, *arrays: np.ndarray) -> None:
        """Run a kernel on arrays, warnings silenced."""
        with collected():
            kernel(*arrays)

    # --- rules and structure
    def profiles(self, kernel: Any, names: Sequence[str], args: Mapping[str, Arg]) -> dict[str, str]:
        """{profile: "ok", "warns rule" or "error rule"} of a kernel."""
        one = [Launch(kernel, tuple(names))]
        return {p: str(under_profile(p, one, args, self.preset, self.device))
                for p in ("lenient", "0.2", "master", "guide")}

    def complexity(self, one: Launch, args: Mapping[str, Arg]) -> dict[str, Any]:
        """Complexity of one launch."""
        return complexity_of([one], inputs_.specs(self.preset, args), "")

    def operations(self, one: Launch, args: Mapping[str, Arg]) -> list[str]:
        """Operations of a launch, without moves."""
        return operations_of(one, inputs_.specs(self.preset, args))

    def declared_bytes(self, name: str, **changes: Any) -> int:
        """Bytes of the tensors a strategy's kernels make for themselves, at the check point with changes."""
        config, chosen = self.config(**changes), self.strategy(name)
        specs = inputs_.specs(self.preset, inputs_.tensors(self._of.module.OPERATOR, chosen, config))
        return sum(declared_bytes(one, specs) for one in chosen.launches(config))
