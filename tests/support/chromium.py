"""The machine's browser, for tests of pages."""

import shutil

CHROMIUM = next(
    (found for name in ("chromium", "chromium-browser", "google-chrome") if (found := shutil.which(name))), None
)
NO_CHROMIUM = "there is no Chromium; on Debian: apt-get install chromium"
