"""The paper's Tables 2 to 8, and the derivation of its algorithm, run again at any scale."""
