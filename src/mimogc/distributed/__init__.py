"""A graph partitioned over processes, on torch.distributed: layers fetch the rows they need of other ranks' nodes."""

from mimogc.distributed.group import LostRankError, barrier, group, on_rank_0, same_parameters, sum_gradients
from mimogc.distributed.halo import Traffic
from mimogc.distributed.ordering import ORDERINGS, Partition, cut, partition
from mimogc.distributed.part import PartitionedGraph
from mimogc.distributed.parts import PartError, load_part, save_parts

__all__ = [
    "ORDERINGS",
    "LostRankError",
    "PartError",
    "Partition",
    "PartitionedGraph",
    "Traffic",
    "barrier",
    "cut",
    "group",
]
__all__ += ["load_part", "on_rank_0", "partition", "same_parameters", "save_parts", "sum_gradients"]
