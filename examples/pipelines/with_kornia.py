"""Augment batches on the device in a kornia pipeline, with a file from `hba export --to
kornia`.

python examples/pipelines/with_kornia.py
"""

import importlib
import sys

import torch
from digits import EPOCHS, as_tensor, digits, learn, say_error, small_network
from kornia.augmentation import AugmentationSequential, RandomErasing

import hba


def main() -> None:
    torch.manual_seed(0)
    # The same as `hba export digits --to kornia`, next to the training that imports it.
    hba.export("digits", "kornia", "digits_kornia.py")
    sys.path.insert(0, ".")
    policy = importlib.import_module("digits_kornia").policy()
    # Masks, boxes and keypoints would move along: data_keys=["input", "mask"].
    augment = AugmentationSequential(policy, RandomErasing(p=0.1), data_keys=["input"])

    images, labels, test_images, test_labels = digits()
    batch_of_all, all_labels = (
        torch.stack([as_tensor(image) for image in images]),
        torch.tensor(labels),
    )
    network = small_network()
    optimizer = torch.optim.SGD(network.parameters(), lr=0.05, momentum=0.9)
    for epoch in range(EPOCHS):
        policy.set_epoch(epoch, EPOCHS)
        for chosen in torch.randperm(len(labels)).split(50):
            learn(network, optimizer, augment(batch_of_all[chosen]), all_labels[chosen])
    say_error(network, test_images, test_labels)


if __name__ == "__main__":
    main()
