"""Problems whose best response and best lambda are known exactly, and what the hypernetwork makes of them."""
