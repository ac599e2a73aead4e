"""Choose the augmentation of a detector of torchvision. Replace `Squares`, which draws
bright squares, by your own images with boxes:

    hba contest examples/own_training/detection.py:train --budget 30m --symmetries \
"horizontal flip,vertical flip,turns"
"""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset
from torchvision import tv_tensors
from torchvision.models.detection import FasterRCNN
from torchvision.models.detection.anchor_utils import AnchorGenerator
from torchvision.models.detection.faster_rcnn import FastRCNNPredictor, TwoMLPHead
from torchvision.ops import box_iou

EPOCHS = 18
"""Epochs of a whole training."""
SIDE = 64


class Squares(Dataset[Any]):
    """Images of a bright square on noise, with its box."""

    def __init__(
        self, n_images: int, seed: int, transform: Callable[..., Any] | None = None
    ) -> None:
        self.n_images = n_images
        self.seed = seed
        self.transform = transform

    def __len__(self) -> int:
        return self.n_images

    def __getitem__(self, index: int) -> tuple[Tensor, dict[str, Tensor]]:
        generator = torch.Generator().manual_seed(self.seed + index)
        image = torch.randint(90, (3, SIDE, SIDE), generator=generator).byte()
        left, top = torch.randint(4, SIDE - 28, (2,), generator=generator).tolist()
        side = int(torch.randint(14, 24, (), generator=generator))
        image[:, top : top + side, left : left + side] += 120
        corners = [[left, top, left + side, top + side]]
        boxes = tv_tensors.BoundingBoxes(
            torch.tensor(corners, dtype=torch.float32),
            format="XYXY",
            canvas_size=(SIDE, SIDE),
        )
        if self.transform is not None:
            image, boxes = self.transform(tv_tensors.Image(image), boxes)
        target = {
            "boxes": boxes.as_subclass(torch.Tensor),
            "labels": torch.ones(1).long(),
        }
        return image.as_subclass(torch.Tensor).float() / 255, target


def detector() -> FasterRCNN:
    layers: list[torch.nn.Module] = [torch.nn.Conv2d(3, 16, 3, 2, 1), torch.nn.ReLU()]
    layers += [torch.nn.Conv2d(16, 32, 3, 2, 1), torch.nn.ReLU()]
    backbone: Any = torch.nn.Sequential(*layers)
    backbone.out_channels = 32
    anchors = AnchorGenerator(sizes=((16, 24),), aspect_ratios=((1.0,),))
    return FasterRCNN(
        backbone,
        rpn_anchor_generator=anchors,
        rpn_pre_nms_top_n_train=100,
        rpn_post_nms_top_n_train=50,
        rpn_pre_nms_top_n_test=100,
        rpn_post_nms_top_n_test=50,
        box_head=TwoMLPHead(32 * 7 * 7, 64),
        box_predictor=FastRCNNPredictor(64, 2),
        box_detections_per_img=1,
        min_size=SIDE,
        max_size=SIDE,
    )


def train(transform: Callable[..., Any], seed: int, effort: float) -> list[float]:
    """Train for a share of the epochs; return the IoU of each validation image."""
    torch.manual_seed(seed)
    model = detector().train()
    loader = DataLoader(
        Squares(48, 0, transform), batch_size=8, shuffle=True, collate_fn=list
    )
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    for _ in range(max(1, round(effort * EPOCHS))):
        for batch in loader:
            images, targets = zip(*batch, strict=True)
            losses = model([*images], [*targets])
            optimizer.zero_grad()
            sum(losses.values()).backward()
            optimizer.step()
    model.eval()
    scores = []
    validation = Squares(24, 10_000)
    with torch.no_grad():
        for index in range(len(validation)):
            image, target = validation[index]
            (found,) = model([image])
            iou = box_iou(found["boxes"], target["boxes"])
            scores.append(float(iou.max()) if iou.numel() else 0.0)
    return scores
