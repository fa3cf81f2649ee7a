"""Groups made again, of the same ranks or others, in a store that keeps its keys."""

import datetime

import pytest
import torch
import torch.distributed as dist

import atp.torch

ALGORITHMS = ("innetwork", "ring")


def total(group, value) -> float:
    tensor = torch.full((100,), value)
    dist.all_reduce(tensor, group=group)
    return tensor[-1].item()


def file_store(folder, rank):
    return dist.FileStore(str(folder / "kept"), -1)


def agent_store(folder, rank):
    """As in torchrun: a store that outlives all groups, here in rank 0's process."""
    port = folder / "port"
    if rank == 0:
        store = dist.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
        port.with_suffix(".new").write_text(str(store.port))
        port.with_suffix(".new").rename(port)
        return store
    while not port.exists():
        pass
    return dist.TCPStore("127.0.0.1", int(port.read_text()), is_master=False)


@pytest.mark.parametrize("make_store", [file_store, agent_store])
@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_each_round_makes_a_group_of_other_ranks(ranks, tmp_path, make_store, algorithm):
    options = atp.torch.Options(algorithm=algorithm)
    pairs = [[0, 1], [1, 2], [0, 2], [0, 1]] * 3

    def body(rank):
        dist.destroy_process_group()
        store = make_store(tmp_path, rank)
        sums = []
        for number, pair in enumerate(pairs):
            dist.init_process_group(
                "atp",
                store=store,
                rank=rank,
                world_size=3,
                pg_options=options,
                timeout=datetime.timedelta(seconds=30),
            )
            group = dist.new_group(pair, pg_options=options)
            if rank in pair:
                sums.append(total(group, float(number)))
            sums.append(total(None, float(number)))
            dist.destroy_process_group()
        dist.init_process_group("gloo", store=store, rank=rank, world_size=3)
        dist.barrier()  # so that no rank leaves while others still connect
        return sums

    for rank, sums in enumerate(ranks.run(3, body)):
        expected = []
        for number, pair in enumerate(pairs):
            expected += [2.0 * number] * (rank in pair) + [3.0 * number]
        assert sums == expected


def test_the_default_group_may_have_another_size_and_other_processes_each_time(ranks, tmp_path):
    worlds = [[0, 1, 2], [1, 2], [2, 0], [0, 1, 2], [1, 0], [2, 1, 0]]

    def body(rank):
        dist.destroy_process_group()
        store = dist.FileStore(str(tmp_path / "kept"), -1)
        sums = []
        for number, world in enumerate(worlds):
            # The number of earlier meetings differs from process to process.
            if rank in world:
                dist.init_process_group(
                    "atp", store=store, rank=world.index(rank), world_size=len(world)
                )
                sums.append(total(None, float(number)))
                dist.destroy_process_group()
            # A process that is in no world must not come early to the next.
            store.set(f"round/{number}/{rank}", "")
            store.wait([f"round/{number}/{r}" for r in range(3)])
        return sums

    for rank, sums in enumerate(ranks.run(3, body)):
        assert sums == [float(len(w) * i) for i, w in enumerate(worlds) if rank in w]


def test_a_rank_that_comes_after_the_others_gave_up_gets_an_error(ranks, tmp_path):
    def body(rank):
        dist.destroy_process_group()
        store = dist.FileStore(str(tmp_path / "kept"), -1)
        if rank == 2:
            store.wait(["given up/0", "given up/1"], datetime.timedelta(seconds=20))
        with pytest.raises(dist.DistStoreError, match="did not join") as error:
            dist.init_process_group(
                "atp",
                store=store,
                rank=rank,
                world_size=3,
                timeout=datetime.timedelta(seconds=1),
            )
        store.set(f"given up/{rank}", "")
        return str(error.value)

    missing = [text.partition(" of group")[0] for text in ranks.run(3, body)]
    assert missing == ["rank 2", "rank 2", "ranks 0, 1"]
