"""Rules over English words, for models that do not see the photo; a model that does says the same in its first look."""
