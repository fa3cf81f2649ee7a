"""lab/ports.py: no other process has a port that the tests give to a program."""

import socket

import pytest

from lab import ports


class Draws:
    """Replaces a random generator by these numbers, one after the other."""

    def __init__(self, *numbers):
        self.numbers = list(numbers)

    def randrange(self, least, end):
        return self.numbers.pop(0)


@pytest.mark.parametrize("kind", [socket.SOCK_DGRAM, socket.SOCK_STREAM], ids=["UDP", "TCP"])
def test_a_port_in_use_at_any_address_is_not_given_out(monkeypatch, kind):
    one, other, taken = ports.free_ports(3)
    with socket.socket(socket.AF_INET, kind) as somebody:
        somebody.bind(("127.0.0.9", taken))
        monkeypatch.setattr(ports, "drawn", Draws(taken, one, one, taken, other))
        assert ports.free_ports(2) == [one, other]


def test_ports_are_not_those_that_the_kernel_gives_to_connections():
    end = ports.first_of_connections()
    assert all(ports.LEAST <= port < end for port in ports.free_ports(20))
