"""Batches on a Dask cluster that is there already: `DaskExecutor`. Needs the extra `dask`."""

from interlock_adapters.dask.artifacts import Artifacts
from interlock_adapters.dask.executor import DaskExecutor

__all__ = ["Artifacts", "DaskExecutor"]
