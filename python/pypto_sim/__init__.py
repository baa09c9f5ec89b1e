"""pypto_sim: runs and costs Huawei Ascend PyPTO kernels on an ordinary CPU."""
from .config import config as config
