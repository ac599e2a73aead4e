"""How good a search is, by settings: planted answers, validation errors, and trainings with what was found."""
