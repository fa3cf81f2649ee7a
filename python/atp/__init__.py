"""In-network gradient aggregation for distributed training.

`import atp.torch` registers the torch.distributed backend "atp"; this module imports nothing.
"""

__version__ = "0.1.0"
