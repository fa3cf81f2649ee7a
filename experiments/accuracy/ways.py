"""The compared kinds of sums: over atp with 32 and 16 bits, and over Gloo."""

import torch
import torch.distributed as dist

import atp.torch

WAYS = {
    "int32": "atp, int32",
    "int16": "atp, int16",
    "gloo_float32": "Gloo, float32",
    "gloo_bfloat16": "Gloo, bfloat16",
}
_GLOO_TYPES = {"gloo_float32": torch.float32, "gloo_bfloat16": torch.bfloat16}


class Ways:
    """The process groups, and the sums over them; created once per rank."""

    def __init__(self):
        every = [*range(dist.get_world_size())]
        self.gloo = dist.new_group(every, backend="gloo")
        self._groups = {
            way: dist.new_group(every, pg_options=atp.torch.Options(wire=way))
            for way in ("int32", "int16")
        }

    def group(self, way):
        return self._groups.get(way, self.gloo)

    def register(self, model, way):
        """Makes a DDP model on the right group average its gradients this way."""
        if way == "int32":
            model.register_comm_hook(self.group(way), atp.torch.ddp_hook)
        elif way == "int16":
            model.register_comm_hook(self.group(way), atp.torch.int16_hook)
        else:
            model.register_comm_hook(self.gloo, _average_as(_GLOO_TYPES[way]))

    def sums(self, tensors, way):
        """The sums of these tensors as one float64 vector; the tensors are not changed."""
        if way in self._groups:
            copies = [tensor.clone() for tensor in tensors]
            dist.all_reduce_coalesced(copies, group=self.group(way))
            return torch.cat([copy.flatten() for copy in copies]).double()
        whole = torch.cat([tensor.flatten() for tensor in tensors]).to(_GLOO_TYPES[way])
        dist.all_reduce(whole, group=self.gloo)
        return whole.double()

    def exact_sums(self, tensors):
        """Exact sums in float64, whose rounding errors are negligible here."""
        whole = torch.cat([tensor.flatten() for tensor in tensors]).double()
        dist.all_reduce(whole, group=self.gloo)
        return whole


def _average_as(dtype):
    """A hook that averages in this type, whatever the gradients' type.

    Like torch's bf16_compress_hook, which requires a GPU.
    """

    def hook(group, bucket):
        buffer = bucket.buffer()
        sent = buffer.to(dtype) / group.size()
        work = dist.all_reduce(sent, group=group, async_op=True)
        return work.get_future().then(lambda f: buffer.copy_(f.value()[0]))

    return hook
