"""The settings of the product's tests hold here too: no hub is asked, and no speed is asserted."""

from tests import conftest  # noqa: F401  (sets the environment before any test module imports a library that reads it)
from tests.search.conftest import pipeline, world  # noqa: F401  (fixtures)
