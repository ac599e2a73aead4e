"""Tables 2 to 8 of the paper, the derivation of its algorithm, and tables of STN and Delta-STN, at any scale."""
