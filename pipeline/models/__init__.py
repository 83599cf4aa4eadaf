"""The model store: which weight files Sori uses, where they come from, and how they are checked."""
