"""What labels mean: the loss, the error, and all else that depends on the task.

The task of images is chosen by the form of the labels, so no setting can contradict
them. All other rooms ask the task; none of them looks at the form of the labels itself.

                labels                  loss                            error
Classification  int64 (N,)              cross entropy                   wrong answers
MultiLabel      bool (N, classes)       binary cross entropy, mean      1 - mean average
                                        over the classes                precision
Regression      float32 (N,),           squared error                   mean absolute
                standardized                                            error
Segmentation    uint8 (N, H, W),        cross entropy plus Dice         1 - mean IoU
                255 is ignored
Language        int64 (B, T)            cross entropy                   wrong words

To add a task, derive a class from `Task` in a module of this room, and list it in
`TASKS`. For a task on images, derive it from `ImageTask`, and add its name to
`ImageTaskName`.
"""

from collections.abc import Mapping
from types import MappingProxyType

import numpy as np
from torch import Tensor

from hba.tasks.classification import Classification
from hba.tasks.language import Language
from hba.tasks.mixed_labels import MixedLabels
from hba.tasks.multi_label import MultiLabel
from hba.tasks.regression import Regression
from hba.tasks.segmentation import Segmentation
from hba.tasks.task import ImageTask, Outputs, Task

TASKS: Mapping[str, Task] = MappingProxyType(
    {
        task.name: task
        for task in (
            Classification(),
            MultiLabel(),
            Regression(),
            Segmentation(),
            Language(),
        )
    }
)
"""All tasks, by name."""
IMAGE_TASKS: Mapping[str, ImageTask] = MappingProxyType(
    {name: task for name, task in TASKS.items() if isinstance(task, ImageTask)}
)
"""The tasks on images, by name."""

__all__ = [
    "IMAGE_TASKS",
    "TASKS",
    "Classification",
    "ImageTask",
    "Language",
    "MixedLabels",
    "MultiLabel",
    "Outputs",
    "Regression",
    "Segmentation",
    "Task",
    "task_of",
]


def task_of(labels: Tensor | np.ndarray | MixedLabels) -> ImageTask:
    """The task of images with these labels.

    Args:
        labels: Labels of a data set or of a batch.

    Raises:
        ValueError: If no task has labels of this form.
    """
    form = labels.labels if isinstance(labels, MixedLabels) else labels
    for task in IMAGE_TASKS.values():
        if task.has_form(form):
            return task
    raise ValueError(f"no task has labels of {form.dtype} and shape {(*form.shape,)}")
