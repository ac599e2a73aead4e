"""What is tuned beside operations: on images, inside the network, and in the loss."""
