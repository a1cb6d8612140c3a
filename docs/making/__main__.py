"""Write everything anew: `python -m docs.making`, or `make docs`."""

import asyncio
import tempfile
from pathlib import Path

from docs.making import reference, screens, session


async def main() -> None:
    """Write the reference and the screens, then type every session."""
    for path, text in reference.pages().items():
        path.write_text(text)
    screens.write()
    for page in session.PAGES:
        async with session.open_shop() as shop:  # each page finds an empty store
            with tempfile.TemporaryDirectory() as folder:
                text = page.read_text()
                now = await asyncio.to_thread(session.renewed, text, shop, Path(folder))
        if now != text:
            page.write_text(now)
            print(f"{page.relative_to(session.ROOT)}: written anew")


if __name__ == "__main__":
    asyncio.run(main())
