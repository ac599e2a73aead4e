"""A Ray cluster of two machines, each a process of this one."""


class Machines:
    """The local cluster, and how one of its machines is lost."""

    def __init__(self) -> None:
        from ray.cluster_utils import Cluster as LocalCluster

        size = {
            "num_cpus": 1,
            "include_dashboard": False,
            "object_store_memory": 80_000_000,
        }
        self.all = LocalCluster(initialize_head=True, head_node_args=size)
        self.other = self.all.add_node(num_cpus=1, object_store_memory=80_000_000)
        self.address = str(self.all.address)

    def lose_one(self) -> None:
        """Without a word, as by a power cut. Only once."""
        if self.other in self.all.list_all_nodes():
            self.all.remove_node(self.other, allow_graceful=False)
