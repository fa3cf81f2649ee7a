"""Compares the two runs: the table that the demo prints, and its checks."""

import dataclasses

import node_stats
from job import VALUES_PER_FRAGMENT, WORKERS, Run

# UDP payload of a fragment (header, one bitmap word, values), plus IPv4 and UDP headers.
_FRAGMENT_BYTES = 40 + 8 + 4 * VALUES_PER_FRAGMENT + 28
_REPEATS = ("repeats_plain", "repeats_resend", "repeats_direct", "repeats_float")


@dataclasses.dataclass(frozen=True)
class Expectation:
    """The amount of training, and the required results."""

    images: int
    epochs: int
    accuracy: float  # minimum, for both runs
    accuracy_apart: float = 0.015
    first_losses: int = 50
    loss_difference: float = 1e-4  # relative, for the first losses
    summed_in_switch: float = 0.95  # of all fragments


@dataclasses.dataclass(frozen=True)
class Check:
    what: str
    passed: bool


class Comparison:
    def __init__(self, atp: Run, gloo: Run, expected: Expectation):
        self._atp = atp
        self._gloo = gloo
        self._expected = expected
        self._server = atp.server[-1]["counters"]
        self._workers = [stats["counters"] for stats in atp.result["stats"]]

        pairs = zip(atp.result["losses"], gloo.result["losses"], strict=True)
        first = list(pairs)[: expected.first_losses]
        self.loss_difference = max(abs(a - g) / abs(g) for a, g in first)
        self.accuracies = atp.result["accuracy"], gloo.result["accuracy"]
        self.fragments = self._server["fragments_completed"]
        self.summed_in_switch = node_stats.share_summed_in_switch(atp.server[-1]) or 0.0
        self.server_bytes = self._server["udp_ip_bytes_in"]
        # Without a switch the server would receive every worker's fragments.
        self.server_bytes_without = self.fragments * WORKERS * _FRAGMENT_BYTES
        self.repeats = sum(worker[name] for worker in self._workers for name in _REPEATS)

    def checks(self) -> list[Check]:
        want = self._expected
        lower, apart = min(self.accuracies), abs(self.accuracies[0] - self.accuracies[1])
        calls, size = self._traffic("peers", "float32")
        return [
            Check(f"test accuracy {lower:.2%}, expected {want.accuracy:.0%} or more",
                  lower >= want.accuracy),
            Check(f"test accuracies {100 * apart:.2f} points apart, expected at most "
                  f"{100 * want.accuracy_apart:g}", apart <= want.accuracy_apart),
            Check(f"the first {want.first_losses} losses differ by {self.loss_difference:.1e}, "
                  f"expected at most {want.loss_difference:.0e}",
                  self.loss_difference <= want.loss_difference),
            Check(f"{calls} all-reduces of float32 ({size:,} bytes) of the atp run did not go "
                  "through the network, expected none", calls == 0),
            Check(f"{self.summed_in_switch:.2%} of the fragments reached the server as one packet, "
                  f"expected {want.summed_in_switch:.0%} or more",
                  self.summed_in_switch >= want.summed_in_switch),
            Check("the ranks' final weights differ in the atp run", self._equal(self._atp)),
            Check("the ranks' final weights differ in the Gloo run", self._equal(self._gloo)),
        ]  # fmt: skip

    def table(self) -> str:
        return (
            _format(("", "atp", "Gloo"), self._outcomes())
            + "\n\n"
            + _format(("the atp run's gradients", "", ""), self._ways())
        )

    def _outcomes(self) -> list[tuple[str, str, str]]:
        atp, gloo = self._atp.result, self._gloo.result
        first = f"first {self._expected.first_losses} losses"
        return [
            ("test accuracy", *(f"{accuracy:.2%}" for accuracy in self.accuracies)),
            ("final loss, mean of 20 steps", _tail(atp["losses"]), _tail(gloo["losses"])),
            (f"{first}, largest relative difference", f"{self.loss_difference:.1e}", ""),
            ("final weights of all ranks, SHA-256", _digests(atp), _digests(gloo)),
            ("training time", f"{atp['seconds']:.1f} s", f"{gloo['seconds']:.1f} s"),
        ]

    def _ways(self) -> list[tuple[str, str, str]]:
        server, workers = self._server, self._workers
        return [
            ("float32 summed in network, per rank",
             *_amounts(self._traffic("innetwork", "float32"))),
            ("float32 summed between ranks, per rank",
             *_amounts(self._traffic("peers", "float32"))),
            ("int64 summed between ranks, per rank", *_amounts(self._traffic("peers", "int64"))),
            (f"fragments of {VALUES_PER_FRAGMENT} values", f"{self.fragments:,}", ""),
            ("  summed in the switch: one packet with all ranks",
             f"{server['fragments_completed_by_one_packet']:,}", f"{self.summed_in_switch:.2%}"),
            ("  finished by the server", f"{server['fragments_completed_by_server']:,}", ""),
            ("reached the server", _size(self.server_bytes), ""),
            ("  without a switch it would be", _size(self.server_bytes_without),
             f"{self.server_bytes_without / self.server_bytes:.2f} times"),
            ("packets that workers repeated", f"{self.repeats:,}",
             f"of {sum(worker['gradients_sent'] for worker in workers):,}"),
        ]  # fmt: skip

    def _traffic(self, path: str, dtype: str) -> tuple[int, int]:
        """Calls and bytes of all-reduces in the atp run, on the rank with the most."""
        counts = [
            stats[path].get("all_reduce", {}).get(dtype, {"calls": 0, "bytes": 0})
            for stats in self._atp.result["stats"]
        ]
        return max(c["calls"] for c in counts), max(c["bytes"] for c in counts)

    @staticmethod
    def _equal(run: Run) -> bool:
        return len(run.result["digests"]) == WORKERS and len(set(run.result["digests"])) == 1


def _tail(losses: list[float]) -> str:
    return f"{sum(losses[-20:]) / len(losses[-20:]):.4f}"


def _digests(result: dict) -> str:
    different = sorted(set(result["digests"]))
    return f"{different[0][:12]}…" if len(different) == 1 else f"{len(different)} different"


def _amounts(calls_and_bytes: tuple[int, int]) -> tuple[str, str]:
    calls, size = calls_and_bytes
    return f"{calls:,} call{'s' * (calls != 1)}", _size(size)


def _size(size: int) -> str:
    return f"{size / 1e6:,.1f} MB" if size >= 1e5 else f"{size:,} B"


def _format(head: tuple[str, str, str], rows: list[tuple[str, str, str]]) -> str:
    left, middle, right = 50, 14, 14
    lines = [f"{a:<{left}}{b:>{middle}}{c:>{right}}" for a, b, c in (head, *rows)]
    return "\n".join([lines[0], "─" * (left + middle + right), *lines[1:]])
