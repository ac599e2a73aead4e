"""Language models with regularisation that is searched, replayed and fixed."""
