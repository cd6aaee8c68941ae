"""Build the documentation as a static site: `make docs`.

The documents link to each other and to files of the repository with relative paths. The build therefore
copies every tracked document to the same place of a folder of sources, so that the links hold as they are.
A linked file or folder that is no document becomes a page with the text of its files. mkdocs renders the
folder in strict mode: a link or an anchor without target ends the build.

    python docs/site.py [--into FOLDER]
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
FOLDER = ROOT / "build" / "docs"
CONFIGURATION = ROOT / "mkdocs.yml"
VENDORED = "LICENSES.md"
LINK = re.compile(r"(?<=\]\()(?!\w+:)([^)#\s]+)(?=[)#])")
WHOLE_LINK = re.compile(r"\[([^\]]+)\]\(([^)#\s]+\.md)\)")
LANGUAGES = {
    ".py": "python",
    ".sh": "sh",
    ".yaml": "yaml",
    ".json": "json",
    ".service": "ini",
    ".conf": "ini",
}
LINES_MAX = 400
"""Lines of a linked file that a page shows; the dashboard of Grafana has more and is named only."""


def tracked() -> list[str]:
    """Return the paths of the repository's files, with those not yet committed."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard"]
    names = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout.splitlines()
    return sorted(name for name in names if (ROOT / name).is_file())


def listing(files: list[str], title: str) -> str:
    """Return a page with the text of files, each in a fence longer than any inside it."""
    parts = [f"# {title}\n"]
    for name in files:
        text = (ROOT / name).read_text("utf-8")
        if len(text.splitlines()) > LINES_MAX:
            parts.append(f"## {name}\n\nThis file has more than {LINES_MAX} lines; the repository has it.\n")
            continue
        language = LANGUAGES.get(Path(name).suffix, "text")
        parts.append(f"## {name}\n\n`````{language}\n{text.rstrip()}\n`````\n")
    return "\n".join(parts)


def address(name: str) -> str:
    """Return the address of a document's page in the site."""
    path = name.removesuffix(".md")
    language, path = ("zh", path.removesuffix(".zh")) if path.endswith(".zh") else ("", path)
    return (Path(language) / path.removesuffix("README")).as_posix()


def between_languages(name: str, text: str) -> str:
    """Turn links to another language into HTML: mkdocs knows only the documents of the page's language."""

    def anchor(link: re.Match[str]) -> str:
        path = os.path.normpath((Path(name).parent / link[2]).as_posix())
        if not path.endswith(".zh.md") and path != name.replace(".zh.md", ".md"):
            return link[0]
        if path.endswith(".zh.md") == name.endswith(".zh.md"):
            return link[0]
        return f'<a href="{os.path.relpath(address(path), address(name))}/">{link[1]}</a>'

    return WHOLE_LINK.sub(anchor, text)


def copy_document(name: str, files: list[str], sources: Path) -> None:
    """Copy a document, and what it links to; a link to a file or folder leads to the page of its text."""

    def target(link: re.Match[str]) -> str:
        path = os.path.normpath((Path(name).parent / link[1]).as_posix())
        if path.endswith(".md"):
            return link[1]
        if path.endswith(".png"):
            write(sources / path, (ROOT / path).read_bytes())
            return link[1]
        inside = [path] if path in files else [file for file in files if file.startswith(f"{path}/")]
        if not inside:
            return link[1]  # mkdocs reports it
        write(sources / f"{path}.files.md", listing(inside, path).encode())
        return f"{link[1].rstrip('/')}.files.md"

    text = between_languages(name, (ROOT / name).read_text("utf-8"))
    write(sources / name, LINK.sub(target, text).encode())


def write(path: Path, content: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)


def collect(sources: Path) -> None:
    """Fill the folder of sources from the repository."""
    shutil.rmtree(sources, ignore_errors=True)
    files = tracked()
    for name in files:
        if name.endswith(".md") and Path(name).name != VENDORED:
            copy_document(name, files, sources)


def render(folder: Path) -> int:
    """Render `folder/sources` into `folder/site`; returns the exit code of mkdocs."""
    settings = folder / "mkdocs.yml"
    text = CONFIGURATION.read_text("utf-8")
    for key, place in (("docs_dir", folder / "sources"), ("site_dir", folder / "site")):
        text = re.sub(rf"^{key}: .*$", f"{key}: {place}", text, flags=re.MULTILINE)
    settings.write_text(text.replace("paths: [src]", f"paths: [{ROOT / 'src'}]"), "utf-8")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--config-file", str(settings)]
    # The theme's notice about its successor is no message about this site.
    variables = os.environ | {"NO_MKDOCS_2_WARNING": "1"}
    done = subprocess.run(command, cwd=ROOT, env=variables, check=False, capture_output=True, text=True)
    if done.returncode:
        print(done.stdout + done.stderr, file=sys.stderr)
    return done.returncode


def main() -> None:
    parser = argparse.ArgumentParser(prog="make docs", description=__doc__)
    parser.add_argument("--into", type=Path, default=FOLDER, help="folder of sources and site")
    folder = parser.parse_args().into.resolve()
    collect(folder / "sources")
    if code := render(folder):
        sys.exit(code)
    site = folder / "site"
    print(f"The site is in {site}; read it with: python3 -m http.server --directory {site}")


if __name__ == "__main__":
    main()
