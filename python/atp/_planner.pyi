from collections.abc import Sequence

class Description:
    def __init__(self, path: str, text: str = "", is_text: bool = False) -> None: ...

class Choices:
    def __init__(
        self,
        *,
        mode: str,
        collectives: Sequence[str],
        batch: int,
        sequence: int,
        element_bytes: int,
        point_to_point_correction: bool,
        volume: str,
        fused: bool,
        count_norms: bool,
        chunks: int,
        device_memory_bytes: float,
    ) -> None: ...

def plan_json(
    topology: Description, model: Description, world_size: int, choices: Choices
) -> str: ...
def ranks_by_position(layout: Sequence[tuple[int, int]]) -> list[int]: ...
