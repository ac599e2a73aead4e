"""Datasets, image folders, splits, and batches on the device."""

from hba.data.builtin import DATASET_NAMES
from hba.data.cache import Prepared
from hba.data.images import EvaluationData, LabelledImages, SearchData
from hba.data.load import from_dataset, load_evaluation_data, load_search_data, prepare

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
