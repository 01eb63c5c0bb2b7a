"""Replies of a large multimodal model, written by hand request by request, and a chat model that replays them.

They were made for a table of `lab/notes/strong_model.md`: every request of a preset went to a file, and the model answered it from the
prompt and the pictures alone. Whoever has the set prepared can run a preset on them again without any model.
"""
