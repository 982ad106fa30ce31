"""Going on with a walk."""

import pytest

from oncelog_storage.core.walks import run_walk


def walk():
    found = []
    for need in (1, 2):
        try:
            found.append((yield need))
        except ValueError as error:
            found.append(error)
    return found


def refusal(error):
    def answer(need):
        raise error

    return answer


def test_a_walk_is_sent_what_it_needs():
    assert run_walk(walk(), lambda need: need * 10) == [10, 20]


def test_an_error_that_is_the_walks_reaches_it():
    error = ValueError()
    assert run_walk(walk(), refusal(error), (ValueError,)) == [error, error]


@pytest.mark.parametrize("thrown", [(), (ValueError,)])
def test_another_error_ends_the_walk(thrown):
    with pytest.raises(KeyError):
        run_walk(walk(), refusal(KeyError()), thrown)
