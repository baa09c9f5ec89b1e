"""Import of the alias in a fresh process: beyond torch, without torch, and of a process that does not use it."""
import os

from pypto_sim import compat


class Import:
    """`timeraw_*` runs (statement, setup) in a new interpreter."""

    timeout = 120

    def timeraw_beyond_torch(self):
        return ("import pypto_sim.compat; pypto_sim.compat.install(); import pypto, torch_npu; "
                "assert torch.zeros(1, device='npu:0').is_npu", "import torch")

    def timeraw_without_torch(self):
        return "import pypto_sim.compat; pypto_sim.compat.install(); import pypto"

    def timeraw_first_tensor(self):
        return ("x = torch.zeros(4, device='npu:0') + 1",
                "import pypto_sim.compat; pypto_sim.compat.install(); import torch")


class ChildProcess:
    """What the alias costs a Python process of the script that does not import pypto."""

    def timeraw_site(self):
        file = os.path.join(compat.SITE, "sitecustomize.py")
        return f"import runpy; runpy.run_path({file!r})"


class Tensors:
    """Torch operations on stand-in tensors beside plain ones."""

    params = ["cpu", "npu"]
    param_names = ["device"]

    def setup(self, device):
        import torch
        compat.install()
        self.x = torch.ones(4, 4, device=device)

    def teardown(self, device):
        compat.uninstall()

    def time_small_add(self, device):
        self.x + 1
