"""Batches: many runs, each counted once, wherever the batch is killed. `interlock.batch(...)` opens one.

That name is this package's too, so the package can be called: whichever of its modules was imported first,
`interlock.batch` is one and the same thing, and calling it is `interlock.batch.opening.batch`.
"""

import sys
from types import ModuleType

TYPE_CHECKING = False

if not TYPE_CHECKING:  # type checkers see the function, which `interlock` imports

    class _Callable(ModuleType):
        def __call__(self, *args: object, **options: object) -> object:
            from interlock.batch.opening import batch  # noqa: PLC0415  # the package alone loads nothing

            return batch(*args, **options)

    sys.modules[__name__].__class__ = _Callable
