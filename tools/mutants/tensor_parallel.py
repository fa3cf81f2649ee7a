"""Mutants of atp.tensor_parallel: defects that it once had, or could have, and what kills each.

Each is planted in one file, and only the test that its rule names is run.
"""

import dataclasses

from tools.mutants.mutant import Rule

__all__ = ["KILLERS", "RULES", "Planted"]

SOURCES = "python/atp/tensor_parallel"
TESTS = "python/tests/tensor_parallel"


@dataclasses.dataclass(frozen=True)
class Planted:
    """`found`, unique in `file`, is replaced; `test`, in TESTS, must then fail."""

    name: str  # a sentence
    file: str
    found: str
    planted: str
    test: str

    def rule(self) -> Rule:
        return Rule(self.name, f"{SOURCES}/{self.file}", self.found, self.planted)


_PLANTED = [
    # What init_mesh("auto") tells the planner, and what it makes of the answer.
    Planted(
        "sums in the network run on a ring",
        "request.py",
        "return collective if collective in ALGORITHMS else unnamed",
        'return "gloo" if collective == "gloo" else unnamed',
        "test_auto.py::test_auto_plans_only_what_can_run",
    ),
    Planted(
        "the planner does not learn which algorithms are allowed",
        "request.py",
        "wanted = [[one] for one in given]",
        'wanted = ["ring", "innetwork"]',
        "test_auto.py::test_auto_plans_only_what_can_run",
    ),
    Planted(
        "the planner may choose what the runtime lacks",
        "request.py",
        "fused=fused, runtime=True, **planning)",
        "fused=fused, **planning)",
        "test_auto.py::test_auto_plans_only_what_can_run",
    ),
    Planted(
        "the planner's order of devices is dropped",
        "request.py",
        "answer.order() if order is None else order",
        "order",
        "test_auto.py::test_the_mesh_uses_the_planners_order",
    ),
    Planted(
        "calibrated files forget the algorithm",
        "measured_file.py",
        'f"mesh: [{mesh[0]}, {mesh[1]}]", f"algorithm: {algorithm}"]',
        'f"mesh: [{mesh[0]}, {mesh[1]}]"]',
        "test_calibrate.py::test_measurements_of_another_algorithm_stay",
    ),
    Planted(
        "compare replays heads of another width",
        "calibrate.py",
        'data.get("head_dim") if llama else None',
        "None",
        "test_calibrate.py::test_a_replay_sends_the_bytes_that_the_planner_counts",
    ),
    Planted(
        "compare replays no sums of copied key-value heads",
        "replay.py",
        "if parameter is not None and any(",
        "if False and any(",
        "test_calibrate.py::test_a_replay_sends_the_bytes_that_the_planner_counts",
    ),
    # Half precision.
    Planted(
        "norms are computed in half precision",
        "norm.py",
        "wide = widened(x)",
        "wide = x",
        "test_half_precision.py::test_norms_and_losses_are_as_precise_as_torchs",
    ),
    Planted(
        "the loss is computed in half precision",
        "loss.py",
        "mesh.first, widened(logits)",
        "mesh.first, logits",
        "test_half_precision.py::test_norms_and_losses_are_as_precise_as_torchs",
    ),
    Planted(
        "autocast does not reach the products",
        "precision.py",
        "if not torch.is_autocast_enabled(kind):",
        "if True:",
        "test_half_precision.py::test_bfloat16_is_nearly_as_close_to_float32_as_torchs",
    ),
    Planted(
        "partial products are rounded before they are summed",
        "conjugates.py",
        "(product_in_float32 if is_half(x) else _multiply)(x, weight)",
        "_multiply(x, weight)",
        "test_half_precision.py::test_a_sum_of_products_is_rounded_once",
    ),
    Planted(
        "Gloo sums in half precision",
        "dimension.py",
        "own = widened(tensor)",
        "own = tensor",
        "test_half_precision.py::test_sums_of_half_precision_are_rounded_once",
    ),
    # Random numbers.
    Planted(
        "the dropout of a feed-forward block is lost",
        "feed_forward.py",
        "return result if self.dropout is None else self.dropout(result)",
        "return result",
        "test_randomness.py::test_masks_are_the_same_in_a_column_and_differ_elsewhere",
    ),
    Planted(
        "the dropout of an attention block is lost",
        "attention.py",
        "return result if self.dropout is None else self.dropout(result)",
        "return result",
        "test_randomness.py::test_masks_are_the_same_in_a_column_and_differ_elsewhere",
    ),
    Planted(
        "a dropout that no role mentions vanishes",
        "roles.py",
        "child.p > 0 and name not in dropouts",
        "False",
        "test_bad_input.py::test_it_is_refused_at_every_rank",
    ),
    Planted(
        "the ranks of a column drop different values",
        "dropout.py",
        "draws = randomness.of_rank if self._mesh.splits_tokens else randomness.of_column",
        "draws = randomness.of_rank",
        "test_randomness.py::test_masks_are_the_same_in_a_column_and_differ_elsewhere",
    ),
    Planted(
        "a batch begins with the ranks' own random numbers",
        "randomness.py",
        "torchs.manual_seed(_mixed(self.seed, self._replica, self.batches))",
        "pass",
        "test_randomness.py::test_masks_are_the_same_in_a_column_and_differ_elsewhere",
    ),
    Planted(
        "a checkpoint forgets how many batches have drawn",
        "checkpoint.py",
        "mesh.randomness.batches = pieces.batches()",
        "pass",
        "test_randomness.py::test_a_checkpoint_continues_with_the_next_masks",
    ),
    # What must be the same on all ranks, or known of a parameter.
    Planted(
        "ranks that start with other weights are accepted",
        "parallelize.py",
        'return f"{kind}, checksum {zlib.crc32(values):08x}"',
        "return kind",
        "test_bad_input.py::test_it_is_refused_at_every_rank",
    ),
    Planted(
        "a parameter that replaced another counts as whole",
        "sharding.py",
        "if isinstance(tensor, nn.Parameter):",
        "if False:",
        "test_bad_input.py::test_it_is_refused_at_every_rank",
    ),
    Planted(
        "a copy of a model gets a mesh of its own",
        "mesh.py",
        """    def __deepcopy__(self, _memo: dict) -> "Mesh":
        return self  # a copy of a model runs on the same mesh

""",
        "",
        "test_randomness.py::test_a_checkpointed_block_draws_the_same_masks_again",
    ),
    Planted(
        "a rank that loads nothing keeps the others waiting",
        "checkpoint.py",
        'error = ValueError(f"found {type(state).__name__}, expected a state dict: {wrong}")',
        "raise",
        "test_checkpoints.py::test_a_value_that_is_not_a_state_dict_is_refused_soon_at_every_rank",
    ),
    Planted(
        "save removes the earlier checkpoint first",
        "checkpoint.py",
        "        path.mkdir(parents=True, exist_ok=True)\n",
        "        path.mkdir(parents=True, exist_ok=True)\n"
        "        (path / _MANIFEST).unlink(missing_ok=True)\n",
        "test_checkpoints.py::test_a_job_that_dies_while_it_saves_leaves_the_earlier_checkpoint",
    ),
    # Sums.
    Planted(
        "copied key-value heads are summed once per chunk",
        "overlap.py",
        "    if not _shared:\n",
        "    if True:\n",
        "test_volume.py::test_chunks_send_the_same_bytes",
    ),
    Planted(
        "the gradients of a product's input are not summed",
        "linear.py",
        "return Hop(Keep(), AllReduce(self.output_dimension))",
        "return Hop(Keep(), Keep())",
        "test_oracle.py::test_two_layers_compute_the_same_as_dtensor",
    ),
    Planted(
        "values that several ranks hold count several times in the norm",
        "gradients.py",
        "squares += piece.double().square().sum() / copies",
        "squares += piece.double().square().sum()",
        "test_models.py::test_the_norm_of_all_gradients_equals_the_whole_models",
    ),
    Planted(
        "the last row of a padded vocabulary starts at the wrong token",
        "embedding.py",
        "return Part(vocabulary, mesh.first.size).of(mesh.first.index, mesh.first.size)[0]",
        "return vocabulary // mesh.first.size * mesh.first.index",
        "test_unchanged.py::test_logits_loss_and_gradients_match_the_whole_model",
    ),
    Planted(
        "the embedding of padding gets a gradient",
        "embedding.py",
        "found = torch.where(padding, found.detach(), found)",
        "pass",
        "test_models.py::test_the_token_of_padding_gets_no_gradient",
    ),
]

RULES = [one.rule() for one in _PLANTED]
KILLERS = {one.name: f"{TESTS}/{one.test}" for one in _PLANTED}
