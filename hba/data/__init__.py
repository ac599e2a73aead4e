"""Datasets, image folders, splits, and batches on the device."""

from hba.data.arrays import DATASET_NAMES, from_dataset
from hba.data.cache import Prepared
from hba.data.images import EvaluationData, LabelledImages, Scale, SearchData
from hba.data.load import load_evaluation_data, load_search_data, prepare
from hba.data.reading import load_image

__all__ = [
    "DATASET_NAMES",
    "EvaluationData",
    "LabelledImages",
    "Prepared",
    "Scale",
    "SearchData",
]
__all__ += [
    "from_dataset",
    "load_evaluation_data",
    "load_image",
    "load_search_data",
    "prepare",
]
