"""Datasets, image folders, splits, and batches on the device."""

from hba.data.dataset import from_dataset
from hba.data.images import LabelledImages
from hba.data.load import EvaluationData, SearchData, load_evaluation_data, load_search_data
from hba.data.named import DATASET_NAMES
from hba.data.preparing import Prepared, prepare

__all__ = [
    "DATASET_NAMES",
    "EvaluationData",
    "LabelledImages",
    "Prepared",
    "SearchData",
    "from_dataset",
    "load_evaluation_data",
    "load_search_data",
    "prepare",
]
