"""The steps between the policy and the network: baseline augmentation and standardization."""
