"""Misspelt environment variables are named once, by one rank of each host."""

import contextlib
import logging

import pytest


@contextlib.contextmanager
def logged_to(path):
    """Also what the ranks log, which are forked from this process."""
    handler = logging.FileHandler(path)
    logging.getLogger("atp.torch").addHandler(handler)
    try:
        yield
    finally:
        logging.getLogger("atp.torch").removeHandler(handler)
        handler.close()


@pytest.mark.parametrize(
    ("others", "times"), [({}, 1), ({"ATP_WILLS": "/tmp"}, 0)], ids=["torchrun", "atp run"]
)
def test_a_misspelt_variable_is_named_once_unless_atp_run_has_done_so(
    ranks, tmp_path, others, times
):
    def variables(rank):
        return {"ATP_ROTUE": "10.0.0.9:5500", "LOCAL_RANK": str(rank), **others}

    with logged_to(tmp_path / "log"):
        ranks.run(2, lambda rank: None, memory=True, variables=variables)
    said = "environment variable ATP_ROTUE is unknown; did you mean ATP_ROUTE?\n"
    assert (tmp_path / "log").read_text() == said * times
