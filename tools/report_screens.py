"""Look at reports in headless Chromium at two widths in two schemes, and photograph them.

python tools/report_screens.py OUT REPORT.html [NAME=REPORT.html ...]

Prints for each how far the part before the folds reaches and every fault (console messages,
requests, what is wider than the window, words of drawings that are cut or overlap); ends with 1
where there is one. The pictures are OUT/NAME-1280-light.png and so on.
"""

import asyncio
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "support"))

from headless_chromium import CHROMIUM, look, opened, photograph

SIZES = ((1280, 900), (390, 844))


async def main(out: Path, reports: dict[str, Path]) -> int:
    """Look at every report; the exit code."""
    n_faults = 0
    with tempfile.TemporaryDirectory() as profile:
        async with opened(Path(profile)) as page:
            for name, path in reports.items():
                for width, height in SIZES:
                    for dark in (False, True):
                        seen = await look(page, path, width, height, dark=dark)
                        first_part = seen.pop("first part")
                        faults = {k: v for k, v in seen.items() if v and v != [0, []]}
                        n_faults += len(faults)
                        scheme = "dark" if dark else "light"
                        print(
                            f"{name} {width} {scheme}: first part {first_part:.0f} px, "
                            f"{first_part / height:.1f} screens; {faults or 'no fault'}"
                        )
                        picture = out / f"{name}-{width}-{scheme}.png"
                        # All of the first part, and a glimpse of the folds.
                        tall = max(height, round(first_part) + 60)
                        await photograph(page, path, picture, width, tall, dark=dark)
    return 1 if n_faults else 0


if __name__ == "__main__":
    if CHROMIUM is None or len(sys.argv) < 3:
        sys.exit(str(__doc__) if CHROMIUM else "needs Chromium, and none is on the PATH here")
    given = [text.rpartition("=") for text in sys.argv[2:]]
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    named = {name or Path(file).stem: Path(file).resolve() for name, _, file in given}
    sys.exit(asyncio.run(main(folder, named)))
