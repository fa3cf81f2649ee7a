from collections.abc import Sequence

class Description:
    def __init__(self, path: str, text: str = "", is_text: bool = False) -> None: ...

class Choices:
    def __init__(
        self,
        *,
        mode: str,
        collectives: Sequence[str],
        collectives2: Sequence[str],
        batch: int,
        sequence: int,
        element_bytes: int,
        full_attention: bool,
        point_to_point_correction: bool,
        volume: str,
        fused: bool | None,
        count_norms: bool,
        chunks: int,
        micro_batch: int,
        recompute: str,
        device_memory_bytes: float,
        runtime: bool,
        stores_attention_scores: bool,
        by_heads: bool,
        whole_logits: bool,
        sequence_parallel: bool,
        searches_sequence_parallel: bool,
        hosts: Sequence[str],
        ranks_per_host: int,
        replicas: int,
        fully_shard: bool,
        data_collectives: Sequence[str],
    ) -> None: ...

def plan_json(cluster: Description, model: Description, ranks: int, choices: Choices) -> str: ...
def ranks_by_position(layout: Sequence[tuple[int, int]]) -> list[int]: ...
def core_spread(heads: int, kv_heads: int, d1: int, d2: int, batch: int) -> str: ...
def feasibility(
    model: Description, mesh: tuple[int, int], batch: int, chunks: int
) -> tuple[list[str], list[str]]: ...
