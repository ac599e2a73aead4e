"""Chooses what runs many tasks: this process, processes of this machine, or the machines of a cluster."""

from hba.distributed.collectives import local_device
from hba.distributed.process_info import size
from hba.errors import SettingsError
from hba.executors.executor import Executor, ProcessExecutor, SerialExecutor
from hba.executors.ray_executor import Cluster, RayExecutor


def check_one_way(jobs: int | None, cluster: str | None) -> None:
    """SettingsError where more than one is asked for of several jobs, a cluster, and the processes of torchrun."""
    if (jobs is not None and jobs < 1) or [jobs not in (None, 1), cluster is not None, size() > 1].count(True) > 1:
        raise SettingsError(f"give one of jobs (at least 1, got {jobs}), cluster, or torchrun's processes")


def executor_for(device: str, n_jobs: int, cluster: Cluster | None, n_processes: int = 1) -> Executor:
    """n_jobs: tasks at a time on this machine. n_processes: processes of a cluster that share each task."""
    if cluster is None:
        found = local_device(device)
        return ProcessExecutor(found, n_jobs) if n_jobs > 1 else SerialExecutor(found)
    needs = cluster.needs(device)
    if (places := cluster.places(needs)) < n_processes:
        raise SettingsError(
            f"gpus_per_training must be at most {places}, as many as the cluster has room for, got {n_processes}"
        )
    return RayExecutor(cluster, needs, n_processes)
