"""What is tuned beside operations: at the input of the network, inside of it, and in the loss."""
