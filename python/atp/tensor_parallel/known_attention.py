"""Attention blocks of transformers: their layers are recognized by name, and what these compute for
which heads by running the block on random numbers with some of its heads."""

import dataclasses
import itertools
from collections.abc import Iterator
from typing import Any

from torch import nn

from atp.tensor_parallel.attention import HeadCounts
from atp.tensor_parallel.head_layout import GROUP, KV, HeadLayout, Section, plain_layout
from atp.tensor_parallel.heads_alike import COUNTS, why_not_apart
from atp.tensor_parallel.likeness import features_of, formula_of_norm, is_linear
from atp.tensor_parallel.roles import KeptAttentionRole

__all__ = ["attention_of"]

_LAYERS = (
    (("q_proj", "k_proj", "v_proj"), ("o_proj", "out_proj", "dense", "c_proj")),
    (("c_attn",), ("c_proj",)),
    (("qkv_proj",), ("o_proj", "out_proj")),
    (("query_key_value",), ("dense",)),
    (("Wqkv",), ("out_proj",)),
)
_LEAVING = "resid_dropout"  # the dropout of the block's output
_WIDTHS = ("head_dim", "head_size")


def attention_of(name: str, module: Any, unknown: Any) -> KeptAttentionRole | None:
    """The role of an attention block, or None if it is none.

    Raises:
        ValueError: it is one, but a rank cannot run it on its own heads.
    """
    children = dict(module.named_children())
    for inputs, outputs in _LAYERS:
        output = next((each for each in outputs if each in children), None)
        if output is None or not children.keys() >= {*inputs}:
            continue
        if "forward" in vars(module):
            raise unknown(name, module, "its forward() has been replaced")
        for each in (*inputs, output):
            if not is_linear(children[each]):
                raise unknown(f"{name}.{each}", children[each], "it is not a linear layer")
        width = _width_of(module)
        if width is None:
            raise unknown(name, module, "it has no head_dim")
        return _Attention(name, module, inputs, output, width, unknown).role()
    return None


def _width_of(module: Any) -> int | None:
    return next((v for v in (getattr(module, w, None) for w in _WIDTHS) if type(v) is int), None)


class _Attention:
    def __init__(self, name: str, module: Any, inputs: tuple, output: str, width: int, unknown):
        self._name, self._module, self._unknown = name, module, unknown
        self._output, self._width = output, width
        self._made = features_of(module.get_submodule(output))[1]
        self._inputs = (*inputs, *self._more_inputs(inputs))
        self._norms, self._dropouts = self._others()

    def role(self) -> KeptAttentionRole:
        self._check_counts()
        why = "its layers' widths do not match its heads"
        likely = [*self._layouts()]
        for layout in (*likely, *(dataclasses.replace(each, in_config=True) for each in likely)):
            why = why_not_apart(self._module, layout, self._output)
            if why is None:
                leaving = _LEAVING if _LEAVING in self._dropouts else None
                in_core = tuple(each for each in self._dropouts if each != leaving)
                heads, kv = layout.counts.heads, layout.counts.kv
                plain = layout == plain_layout(layout.counts, self._inputs[:3])
                return KeptAttentionRole(
                    self._inputs, self._output, heads, kv, leaving, in_core,
                    None if plain else layout,
                )  # fmt: skip
        raise self._refused(why)

    def _refused(self, why: str) -> ValueError:
        return self._unknown(self._name, self._module, why)

    def _more_inputs(self, inputs: tuple[str, ...]) -> list[str]:
        """Further layers of the block's input, such as gates of its heads."""
        hidden = features_of(self._module.get_submodule(inputs[0]))[1]
        return [
            name
            for name, child in self._module.named_children()
            if name not in (*inputs, self._output)
            and is_linear(child)
            and features_of(child)[1] == hidden
        ]

    def _others(self) -> tuple[dict[str, nn.Module], list[str]]:
        norms, dropouts = {}, []
        for name, child in self._module.named_children():
            if name in (*self._inputs, self._output):
                continue
            if type(child) is nn.Dropout:
                dropouts.append(name)
            elif [*child.children()]:
                raise self._refused(f"it has {name} besides {', '.join(self._inputs)}")
            elif child._parameters:
                norms[name] = child
        return norms, dropouts

    def _check_counts(self) -> None:
        """A count under another name would still be of all heads, and split the values wrongly."""
        known = {*COUNTS, *_WIDTHS, "v_head_dim"}
        for each, value in vars(self._module).items():
            if type(value) is int and "head" in each and each not in known:
                raise self._refused(
                    f"it is not known what its {each} = {value} should be on a rank"
                )

    def _layouts(self) -> Iterator[HeadLayout]:
        """What the layers may compute, likeliest first."""
        for counts, inputs, core in self._of_layers():
            names = [*self._own_parameters()]
            for each in itertools.product(*(self._sections(n, counts) for n in names)):
                own = {name: section for name, (section, _) in zip(names, each, strict=True)}
                over = frozenset(
                    n.rpartition(".")[0] for n, (_, o) in zip(names, each, strict=True) if o
                )
                yield HeadLayout(counts, inputs, core, own, over)

    def _of_layers(self) -> Iterator[tuple[HeadCounts, dict, Section]]:
        outputs = {n: features_of(self._module.get_submodule(n))[0] for n in self._inputs}
        of_value = getattr(self._module, "v_head_dim", None)
        heads, left = divmod(self._made, of_value if type(of_value) is int else self._width)
        if left or not heads:
            return
        core = Section(self._made)
        if "q_proj" in outputs:
            kv, left = divmod(outputs["k_proj"], self._width)
            fits = not left and kv and heads % kv == 0
            if not fits or outputs["q_proj"] % heads or outputs["v_proj"] % kv:
                return
            inputs = {n: (Section(w),) for n, w in outputs.items()}
            inputs |= {n: (Section(outputs[n], KV),) for n in ("k_proj", "v_proj")}
            yield HeadCounts(heads, kv, self._width), inputs, core
            return
        (name, total), *_ = outputs.items()
        kv, left = divmod(total - self._made, 2 * self._width)
        if left or not kv or heads % kv:
            return
        counts = HeadCounts(heads, kv, self._width)
        more = {n: (Section(w),) for n, w in outputs.items() if n != name}
        yield counts, plain_layout(counts, (name,)).inputs | more, core
        yield counts, {name: (Section(total, GROUP),)} | more, core

    def _own_parameters(self) -> Iterator[str]:
        yield from self._module._parameters
        for name, norm in self._norms.items():
            yield from (f"{name}.{leaf}" for leaf, p in norm._parameters.items() if p is not None)

    def _sections(self, name: str, counts: HeadCounts) -> Iterator[tuple[Section | None, bool]]:
        """Whose values a parameter may have, and whether they are normalized together."""
        owner, _, _ = name.rpartition(".")
        parameter = self._module.get_parameter(name)
        size = parameter.shape[0] if parameter.dim() else 0
        of_heads = [s for s in (Section(size), Section(size, KV)) if self._fits(s, counts)]
        if not owner:
            yield from ((section, False) for section in of_heads)
            return
        if parameter.dim() == 1 and size <= 2 * self._width:
            yield None, False
        if parameter.dim() > 1:
            yield from ((section, False) for section in of_heads)
        elif formula_of_norm(self._norms[owner]) is not None:
            yield from ((section, True) for section in of_heads if size > self._width)

    def _fits(self, section: Section, counts: HeadCounts) -> bool:
        number = counts.heads if section.kind != KV else counts.kv
        if section.kind == KV and counts.kv == counts.heads:
            return False
        return section.size in (number, number * self._width)
