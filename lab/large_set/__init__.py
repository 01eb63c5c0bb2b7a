"""A larger question set, made by rule from the graph, pages and scenes of the mini CRAG-MM, in the organiser's schema.

The mini set's 230 turns a split cannot show a difference of two points. These questions, about 700 a split, can: they steer, and what they
favour is checked on the mini set, whose questions people wrote. Entities of one split never occur in the other.
"""
