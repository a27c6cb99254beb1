"""Cases that wait for a release."""

import pytest


def first_of(count, cases):
    """Return the cases of a long test, of which only the first are run before.

    Args:
        count: How many these are.
        cases: Values, or tuples of values.
    """
    return [
        case
        if number < count
        else pytest.param(
            *(case if isinstance(case, tuple) else (case,)), marks=pytest.mark.release
        )
        for number, case in enumerate(cases)
    ]
