"""Augment images in a pipeline of albumentations, by a file that `hba export --to albumentations --average` wrote.

python examples/pipelines/with_albumentations.py
"""

import albumentations
import numpy as np
import torch
from digits import EPOCHS, digits, learn, say_error, small_network

import hba


def main() -> None:
    torch.manual_seed(0)
    # As `hba export digits --to albumentations --average` does. A pipeline does not change over epochs.
    hba.export(hba.load_policy("digits").averaged(), "albumentations", "digits_albumentations.json")
    policy = albumentations.load("digits_albumentations.json")
    augment = albumentations.Compose([policy, albumentations.ToFloat(255), albumentations.ToTensorV2()], seed=0)

    images, labels, test_images, test_labels = digits()
    network = small_network()
    optimizer = torch.optim.SGD(network.parameters(), lr=0.05, momentum=0.9)
    for _ in range(EPOCHS):
        for chosen in torch.randperm(len(labels)).split(50):
            batch = torch.stack([augment(image=np.asarray(images[index]))["image"] for index in chosen])
            learn(network, optimizer, batch, torch.tensor(labels)[chosen])
    say_error(network, test_images, test_labels)


if __name__ == "__main__":
    main()
