"""What stands between the policy and the network: the baseline augmentation and standardisation."""
