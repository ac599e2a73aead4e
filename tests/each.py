"""One test for many cases: a loop that goes on after a failure and names all of them at
the end.
"""

import inspect
from collections.abc import Callable, Iterable
from typing import Any

from _pytest.mark import ParameterSet


def each(
    names: str | tuple[str, ...], cases: Iterable[Any], ids: object = None
) -> Callable[[Any], Any]:
    """As pytest.mark.parametrize, in one test; for tests without fixtures that have a
    state.
    """
    keys = (
        [name.strip() for name in names.split(",")]
        if isinstance(names, str)
        else list(names)
    )
    rows = [
        (
            list(case.values)
            if isinstance(case, ParameterSet)
            else list(case)
            if keys[1:]
            else [case]
        )
        for case in cases
    ]

    def decorate(test: Callable[..., None]) -> Callable[..., None]:
        signature = inspect.signature(test)

        def loop(**fixtures: Any) -> None:
            failures = []
            for case in rows:
                try:
                    test(**fixtures, **dict(zip(keys, case, strict=True)))
                except Exception as error:
                    failures.append((case, error))
            if failures:
                found = "\n".join(
                    f"{case}: {type(error).__name__}: {error}"
                    for case, error in failures
                )
                raise AssertionError(
                    f"{len(failures)} of {len(rows)} cases:\n{found}"
                ) from failures[0][1]

        rest = [one for name, one in signature.parameters.items() if name not in keys]
        loop.__name__, loop.__doc__, loop.__module__ = (
            test.__name__,
            test.__doc__,
            test.__module__,
        )
        loop.__signature__ = signature.replace(parameters=rest)  # type: ignore[attr-defined]
        loop.__dict__["pytestmark"] = getattr(test, "pytestmark", [])
        return loop

    return decorate
