"""One file per subject; each offers functions from Surroundings to results."""
